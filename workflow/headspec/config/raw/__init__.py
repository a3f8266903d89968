"""The config as it is written: values that it may not have, renamed keys, and sections with mistakes."""
