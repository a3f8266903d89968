"""Figures of the head atlas, by functions `draw_...` that return a matplotlib Figure."""
