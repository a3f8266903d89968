"""Prompts that a language model continues, judged by what it writes."""
