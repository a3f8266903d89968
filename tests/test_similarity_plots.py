"""Figures of task similarity and its correlation with dissociation: what they show."""

from __future__ import annotations

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.correlation import correlation as correlate
from headspec.correlation import paired
from headspec.plots import MEASURES, correlation, labels, number, scatter, similarity
from headspec.plots.points import FLOOR, PARADIGMS
from test_plots import LONG, NINE, frame, labelled, texts

SIX = ["cola", "mnli", "qnli", "qqp", "sst2", "topic-pair"]
PAIRS = {"mnli", "mrpc", "qnli", "qqp", "rte", "stsb", "wnli", "topic-pair", LONG[1]}
MODELS = ("bert-base", "minilm", "roberta-base")


def made_up(tasks: list[str], models: tuple[str, ...] = MODELS[:1], measures=tuple(MEASURES)) -> dict:
    """Tables of a study in which the more alike tasks are, the less they dissociate, more or less."""
    rng = np.random.default_rng(len(tasks))
    paradigms = {task: "pair" if task in PAIRS else "single" for task in tasks}
    places = {task: rng.normal(size=3) + 2 * (task in PAIRS) for task in tasks}
    alike, combined = [], []
    for model, (a, b) in itertools.product(models, itertools.combinations(tasks, 2)):
        near = np.exp(-np.linalg.norm(places[a] - places[b]) / 3)
        mean = 0.22 - 0.25 * near + rng.normal(0, 0.03)
        width = rng.uniform(0.01, 0.03)
        common = dict(model=model, mixture=f"{a}+{b}", method="tuned", n_seeds=3)
        values = dict(dissociation=mean, ci_low=mean - width, ci_high=mean + width)
        floor = len(combined) % 9 == 4
        combined.append(common | dict(task="mean", floor=floor) | values)
        for index, measure in enumerate(measures):
            value = near + rng.normal(0, 0.02 + 0.02 * index)
            if measure == "paradigm":
                value = float(paradigms[a] == paradigms[b])
            if measure in ("dse", "cka"):
                value = 0.97 + 0.03 * value
            if measure == "gradient":
                value -= 0.4
            row = dict(model=model, measure=measure, task_a=a, task_b=b, similarity=value)
            value = min(value, 1)
            if measure == "cnm":
                row |= dict(ci_low=value - 0.05, ci_high=value + 0.05)
                alike.append(row | dict(subject="s1"))
            alike.append(row)
    tables = {"similarity": frame("similarity", alike), "combined": frame("combined", combined)}
    tables["pairs"] = paired(tables["similarity"], tables["combined"], paradigms, "tuned")
    tables["correlation"] = correlate(tables["pairs"], len(tasks), 0)
    return tables
