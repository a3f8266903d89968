"""A run of the workflow: its start, and what a person sees of it."""
