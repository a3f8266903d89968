"""Tasks as prompts for a frozen language model, without training."""
