"""Atomic files, SHA-256 of inputs, hashes of code, and resources that jobs used."""
