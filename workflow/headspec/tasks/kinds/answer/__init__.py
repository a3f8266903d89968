"""Extractive question answering: the answer is a span of the context, or there is none."""
