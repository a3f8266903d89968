"""The measures of heads and of similarity: one list of each."""
