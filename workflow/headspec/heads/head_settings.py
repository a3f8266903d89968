"""Checks, before any job, of settings on heads against the heads of the models."""

import contextlib

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.sections.model import Model
from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.data.sources.formats import registry
from headspec.data.sources.formats.options import Options
from headspec.errors import DataError, HeadspecError, ModelError, listing
from headspec.heads.masks import listed_heads_mask
from headspec.heads.ranking import prune_count
from headspec.models.pretrained.config_json import MOST, config_of, heads_by_layer

COLUMNS = ["layer", "head"]


def exists(model: Model, key: str) -> NDArray[np.bool_] | None:
    """Return the heads of a model, bool (layers, heads), or None if only loading the model would tell.

    A hybrid model whose config does not list its attention layers is treated as if every layer had attention.
    """
    kinds = heads_by_layer(config_of(model, key) or {})
    if kinds is None:
        return None
    rows = np.array([heads for counts in kinds.values() for heads in counts])
    rows = rows[: 1 + int(np.max(np.flatnonzero(rows), initial=-1))]
    return np.arange(np.max(rows, initial=0)) < rows[:, None]


def check_head_counts(study: Study) -> None:
    """Raise a ModelError that lists all settings that prune no head of a model, or more than it has."""
    fractions = {"pruning.fraction": study.pruning.fraction}
    if study.iat.mixtures:
        fractions |= {"iat.alpha": study.iat.alpha}
        fractions |= {f"iat.alphas.{i}": alpha for i, alpha in enumerate(study.iat.alphas)}
    problems = []
    for name, model in study.models.items():
        try:
            there = exists(model, f"models.{name}")
        except HeadspecError:  # reported by `check_models`
            continue
        if there is None:
            continue
        heads = int(there.sum())
        problems += [
            f"{key}: got {fraction:g}, less than one of the {heads} heads of models.{name}; "
            f"expected at least {1 / heads:.3g}"
            for key, fraction in fractions.items()
            if prune_count(fraction, heads) == 0
        ]
        problems += [
            f"pruning.heads.{i}: got {number}, more than the {heads} heads of models.{name}"
            for i, number in enumerate(study.pruning.heads)
            if number > heads
        ]
        problems += [
            f"gates.kept.{i}: got {fraction:g}, all of the {heads} heads of models.{name}; "
            f"expected at most {1 - 1 / heads:.3g}"
            for i, fraction in enumerate(study.gates.kept)
            if prune_count(1 - fraction, heads) == 0
        ]
    if problems:
        raise ModelError("\n".join(problems))


def read_head_list(source: str, key: str) -> list[list[int]]:
    """Read the table `source` and return [layer, head] of each listed head, from 0.

    Raises DataError, naming the config `key`, if the table is missing, empty, invalid, or repeats a head.
    """
    path = locate(source, key)

    def columns(present: list[str]) -> list[str]:
        if missing := [name for name in COLUMNS if name not in present]:
            raise DataError(f"{key}: no column {listing(missing)} in {path.name}; it has {listing(present)}")
        return COLUMNS

    frame = registry.table([path], columns, Options(key))
    numbers = frame.apply(pd.to_numeric, errors="coerce").astype(float)
    wrong = frame[(numbers.isna() | (numbers < 0) | (numbers > MOST) | (numbers % 1 != 0)).any(axis=1)]
    if frame.empty or len(wrong):
        got = f"layer {wrong.iloc[0, 0]}, head {wrong.iloc[0, 1]}" if len(wrong) else "no rows"
        raise DataError(f"{key}: {path.name} has {got}; expected numbers of layers and heads, from 0")
    if len(twice := frame[numbers.duplicated()]):
        raise DataError(f"{key}: {path.name} has layer {twice.iloc[0, 0]}, head {twice.iloc[0, 1]} twice")
    pairs: list[list[int]] = numbers.astype(int).to_numpy().tolist()
    return pairs


def check_head_lists(study: Study) -> None:
    """Raise one HeadspecError for all wrong head lists of a study, checked against its models."""
    errors: list[HeadspecError] = []
    for name, model in study.models.items():
        there = None
        with contextlib.suppress(HeadspecError):  # reported with the model
            there = exists(model, f"models.{name}")
        for of, source in model.heads.items():
            key = f"models.{name}.heads.{of}"
            try:
                heads = read_head_list(source, key)
                if there is not None:
                    listed_heads_mask(heads, there, key)
            except DataError as error:
                errors += error.errors
    if errors:
        raise HeadspecError.combined(errors)
