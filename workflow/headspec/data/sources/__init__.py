"""Readers of sources: tables, folders, treebanks, sentences."""
