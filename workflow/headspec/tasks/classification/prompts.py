"""Prompts whose answers are classes."""

from headspec.tasks.texts.prompts import Answered

PROMPTS = Answered()
