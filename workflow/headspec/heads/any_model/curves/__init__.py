"""A metric of any model without sets of heads: curves, recovery, and their intervals."""
