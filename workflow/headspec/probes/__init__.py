"""Probes without parameters: what single heads know of the labels of words (He and Choi 2021, section 5)."""
