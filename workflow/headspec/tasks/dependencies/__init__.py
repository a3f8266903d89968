"""Dependencies between words."""
