"""Models without their closed heads, as files that run without headspec."""
