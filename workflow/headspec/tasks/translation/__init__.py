"""Texts that the model writes: translation, or any text to any text."""
