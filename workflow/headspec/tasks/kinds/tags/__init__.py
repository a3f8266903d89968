"""Tags of words."""

FAMILY = "words"
