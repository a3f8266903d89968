"""The list of measures of heads, and the list of measures of similarity."""
