"""Formats of tables, one module each, listed in `registry`."""
