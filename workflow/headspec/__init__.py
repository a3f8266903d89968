"""headspec: how attention heads specialise under multi-task learning."""

__version__ = "0.1.0"
