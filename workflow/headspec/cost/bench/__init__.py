"""The benchmark: the speed of headspec on this machine against plain ways to compute the same."""
