"""Numbers of heads compared, and what sets of kept heads have in common."""
