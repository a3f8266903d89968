"""The head atlas: what each head attends to, what it is worth, and which measure to believe."""
