"""Metrics of pairs of texts."""

from headspec.tasks.continuations.preference import METRICS as METRICS
