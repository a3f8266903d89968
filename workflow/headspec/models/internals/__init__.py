"""Internals of an unmodified encoder: attention, relevance, states and vectors."""
