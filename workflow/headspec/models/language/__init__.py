"""Prompted language models: heads for answers, shared prefixes, several GPUs."""
