"""Shared by all figures: style, saving, points of task pairs, and names placed beside points."""
