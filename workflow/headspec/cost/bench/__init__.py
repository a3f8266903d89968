"""The benchmark: the speed of headspec on this machine, compared with plain ways to compute the same."""
