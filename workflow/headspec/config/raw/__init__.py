"""The config as it is written: values that it may not have, and sections with mistakes."""
