"""Constituents of sentences."""
