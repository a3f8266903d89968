"""Formats of tables: a module each, listed in `registry`."""
