"""Constraints of wildcards, so that every path matches only one job: names may contain dots and dashes."""

import re
from collections.abc import Iterable

from headspec.pipeline.layout import Layout


def any_of(names: Iterable[object]) -> str:
    """Return a regular expression for one of `names`."""
    return "|".join(re.escape(str(name)) for name in names) or "(?!)"


def constraints(layout: Layout) -> dict[str, str]:
    """Return the constraint of each wildcard.

    A mixture is any one or two tasks, or a group: Snakemake would search a list of pairs for every file.
    """
    study = layout.study
    task = any_of(study.tasks)
    return {
        "model": any_of(study.models),
        "mixture": rf"(?:{task})(?:\+(?:{task}))?|{any_of(study.mixtures.groups)}",
        "method": any_of(layout.methods),
        "task": task,
        "seed": r"\d+",
        "scope": "shared|per_task",
        "kept": r"open(-[\d.e-]+)?|[\d.e-]+",
    }
