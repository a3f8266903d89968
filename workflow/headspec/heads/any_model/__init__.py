"""Scores of heads in any model of transformers, with its own task head."""
