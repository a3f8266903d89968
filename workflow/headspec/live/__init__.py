"""A workflow run: its start, and the live view of it."""
