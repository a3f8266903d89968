"""Tests, intervals and tables of the head atlas."""
