"""Figures of methods that prune to a number of heads."""
