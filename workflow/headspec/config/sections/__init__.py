"""The sections of the study config, one module each, as typed models with defaults.

The config reference is generated from them and from `headspec.config.study`.
"""
