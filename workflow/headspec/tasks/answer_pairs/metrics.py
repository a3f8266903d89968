"""Metrics of pairs of answers."""

from headspec.tasks.continuations.preference import METRICS as METRICS
