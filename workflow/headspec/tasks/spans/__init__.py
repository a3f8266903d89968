"""Spans of words."""
