"""Pretrained encoders with gates on their heads, and models with classifiers for several tasks."""
