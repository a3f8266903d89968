"""What pages show of the studies that are kept: a module for each page."""
