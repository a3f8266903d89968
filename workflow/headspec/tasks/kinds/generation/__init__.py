"""Generation: a decoder writes the answer to a prompt, which is compared with a reference."""
