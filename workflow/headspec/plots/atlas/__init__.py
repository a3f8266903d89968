"""Figures of the head atlas: one module each, whose function `draw` returns a matplotlib Figure."""
