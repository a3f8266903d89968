"""The figures: one module each, whose function `draw` returns a matplotlib Figure."""
