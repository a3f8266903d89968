"""The explorer: a whole study on one page."""
