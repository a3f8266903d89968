"""The study config: its sections, how it is read, and the checks across sections."""
