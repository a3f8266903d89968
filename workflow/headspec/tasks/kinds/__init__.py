"""Kinds of tasks: a folder for each, or for a family of them."""
