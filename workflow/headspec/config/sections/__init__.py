"""The sections of the study config, one module each, as typed models with defaults."""
