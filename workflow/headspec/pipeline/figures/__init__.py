"""Figures: their list, from which rules are made, and which of them a study has."""
