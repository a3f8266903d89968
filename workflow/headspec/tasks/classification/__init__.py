"""Classes of texts."""
