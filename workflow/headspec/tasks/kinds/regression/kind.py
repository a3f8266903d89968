"""Scores of texts."""

from headspec.tasks.kind import Kind


class Regression(Kind):
    about = "a score"
    metrics, usual = ("pearson", "spearman"), ("spearman", "pearson")


KIND = Regression()
