"""Number of heads according to a model's config, and settings that would prune none or all of them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from headspec.config.sections.model import Model
from headspec.config.study import Study
from headspec.errors import EncoderError, HeadspecError
from headspec.heads.ranking import prune_count
from headspec.models.pretrained.config_json import heads_by_layer
from headspec.models.pretrained.described import content


def exists(model: Model, key: str) -> NDArray[np.bool_] | None:
    """Return the heads of a model, bool (layers, heads), or None if the model must be loaded to know.

    A hybrid model whose config does not list its attention layers is treated as if every layer had attention.
    """
    kinds = heads_by_layer(content(model, key) or {})
    if kinds is None:
        return None
    rows = np.array([heads for counts in kinds.values() for heads in counts])
    rows = rows[: 1 + int(np.max(np.flatnonzero(rows), initial=-1))]
    return np.arange(np.max(rows, initial=0)) < rows[:, None]


def check_head_counts(study: Study) -> None:
    """Raise one EncoderError that lists every setting that would prune no head of a model, or all of them."""
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
        raise EncoderError("\n".join(problems))
