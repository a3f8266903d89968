"""Conversion of texts, words and answers to rows of tokens, and back."""
