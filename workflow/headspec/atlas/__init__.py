"""The head atlas: what each head attends to, how much it matters, and which measure to trust."""
