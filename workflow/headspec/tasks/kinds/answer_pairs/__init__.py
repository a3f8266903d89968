"""A right and a wrong answer to a prompt."""

FAMILY = "continuations"
