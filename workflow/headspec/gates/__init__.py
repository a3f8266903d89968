"""Gates on heads that learn which heads to keep."""
