"""Tasks as prompts: a frozen language model answers, and nothing is trained."""
