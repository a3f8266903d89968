"""Probes without parameters of what single heads know of labels of words (He and Choi 2021, section 5)."""
