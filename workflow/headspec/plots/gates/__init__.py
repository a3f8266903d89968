"""Figures of pruning methods to keep a number of heads."""
