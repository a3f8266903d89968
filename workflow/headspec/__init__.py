"""headspec: how attention heads specialise under multi-task learning."""
