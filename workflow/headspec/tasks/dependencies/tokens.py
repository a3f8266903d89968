"""Tokens: those of sentences of words."""

from headspec.tasks.words.tokens import ENCODING as ENCODING
