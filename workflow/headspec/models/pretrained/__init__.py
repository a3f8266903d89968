"""Pretrained models as files: where they are, what they are, and whether they can be used."""
