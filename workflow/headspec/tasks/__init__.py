"""Kinds of tasks: a folder for each, named as its type in the config, and what several of them share."""
