"""Scores of written texts that plugins declare, for the key `score` of tasks of generation."""

from headspec.registry import Registry

#: name: function of a text and an answer (`headspec.plugins.function`)
OWN: Registry[str] = Registry("score of texts", {})
