"""Checks of a study that need more than one section."""
