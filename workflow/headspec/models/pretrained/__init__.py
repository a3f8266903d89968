"""Pretrained models as files: their location, properties and checks."""
