"""Shared by all figures: style, saving, points of task pairs, and labels beside points."""
