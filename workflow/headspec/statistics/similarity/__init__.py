"""Similarity of tasks against their dissociation."""
