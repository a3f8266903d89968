"""Dependencies between words."""

FAMILY = "words"
