"""Figures of ways to keep a number of heads."""
