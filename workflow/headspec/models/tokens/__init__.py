"""From texts, words and answers to rows of tokens, and back."""
