"""Dissociation of tasks: its scores, and their intervals and tests."""
