"""Files that are whole, the SHA-256 of inputs, hashes of code, and what jobs used."""
