"""Inputs and params of jobs, which rules take from these functions."""
