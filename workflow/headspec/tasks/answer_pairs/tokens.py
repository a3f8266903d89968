"""Tokens: those of texts and pairs of texts."""

from headspec.tasks.texts.tokens import ENCODING as ENCODING
