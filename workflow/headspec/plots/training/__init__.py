"""Figures of training: IAT against plain training, and few-shot transfer."""
