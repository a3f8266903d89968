"""Reading of sources: tables, folders, treebanks, sentences."""
