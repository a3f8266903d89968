"""Decoders of tasks on words: from the states of words to losses and predicted units."""
