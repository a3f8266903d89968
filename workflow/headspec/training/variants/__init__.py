"""Variants of training after the branch, one module for each restriction."""
