"""Scores of heads: different estimates of how much the loss of examples depends on each head.

They are the measures of the atlas for models with their own task head and batches of any form.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import nearest
from headspec.heads.ablations import each_replaced
from headspec.heads.any_model import user_model
from headspec.heads.any_model.scored import Scored, of_others
from headspec.heads.importance import (
    gate_derivatives,
    integrated_derivatives,
    patch_derivatives,
    token_derivatives,
)
from headspec.heads.knockouts import joint
from headspec.models.attention.magnitudes import magnitudes
from headspec.models.attention.past import room
from headspec.models.gates import HeadGates
from headspec.seeds import derive


def gradient(scored: Scored) -> torch.Tensor:
    """Return dL/dgate, (n, layers, heads), whose mean absolute values are Eq. 4 of Li et al. (2023)."""
    return gate_derivatives(scored.gates, scored.losses, scored.n)


def signed(scored: Scored) -> torch.Tensor:
    """Return -dL/dgate, to first order the rise of the loss without a head, (n, layers, heads)."""
    return -gradient(scored)


def tokens(scored: Scored) -> torch.Tensor:
    """Return the sum over tokens of |dL/dgate|, with a gate per token, (n, layers, heads)."""
    tokens = max(context.shape[1] for context in scored.contexts(scored.batch).values())
    most = room(scored.batch) + tokens
    return token_derivatives(scored.gates, scored.losses, scored.n, most).abs().sum(1)


def integrated(scored: Scored) -> torch.Tensor:
    """Return integrated gradients of the gates, (n, layers, heads)."""
    return integrated_derivatives(scored.gates, scored.losses, scored.n)


def attribution(scored: Scored) -> torch.Tensor:
    """Return the estimated rise of the loss with a head's vectors of corrupted inputs, (n, layers, heads)."""
    assert scored.donors is not None
    donated = scored.contexts(scored.donors)
    return patch_derivatives(scored.gates, scored.losses, scored.n, donated)


@torch.no_grad()
def ablation(scored: Scored, instead: Callable[[int], torch.Tensor] | None = None) -> torch.Tensor:
    """Return the rise of the loss without each head, (n, layers, heads); `instead` as in `each_replaced`."""
    whole, exists = scored.passes.record(scored.losses), scored.gates.exists
    replaced = each_replaced(scored.passes, scored.losses, exists, instead)
    rises = [loss - whole for loss in user_model.shown(replaced, "heads", int(exists.sum()))]
    values = whole.new_zeros(scored.n, *exists.shape)
    values[:, torch.from_numpy(exists)] = torch.stack(rises, dim=1)
    return values


def mean_ablation(scored: Scored) -> torch.Tensor:
    """Return the rise of the loss with a head's mean vectors of the other half, (n, layers, heads)."""
    return ablation(scored, scored.means.others(scored.half).__getitem__)


@torch.no_grad()
def resample_ablation(scored: Scored) -> torch.Tensor:
    """Return the rise of the loss with a head's vectors of another or corrupted input, (n, layers, heads)."""
    assert scored.donors is not None
    donated = scored.contexts(scored.donors)
    if scored.shift is None:
        return ablation(scored, donated.__getitem__)
    vectors = scored.contexts(scored.batch)
    return ablation(
        scored, of_others(scored.gates, scored.batch, vectors, scored.donors, donated, scored.shift)
    )


def _design(exists: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Return the heads that each pass closes, (passes, layers, heads), as many passes as heads."""
    return joint.drawn(exists, int(exists.sum()), np.random.default_rng(derive(0, "knockouts")))


@torch.no_grad()
def knockouts(scored: Scored) -> torch.Tensor:
    """Return the rise of the loss without the heads of each pass of `_design`, (n, passes)."""
    whole, rises = scored.losses(), []
    for heads in user_model.shown(_design(scored.gates.exists), "knockouts"):
        with scored.gates.closed(heads):
            rises.append(scored.losses() - whole)
    return torch.stack(rises, dim=1)


def _effects(rises: NDArray[np.floating], exists: NDArray[np.bool_]) -> NDArray[np.floating]:
    """Return the effects of heads, (n, layers, heads), from the rises of each pass, (n, passes)."""
    values = np.zeros((len(rises), *exists.shape))
    values[:, exists] = joint.fitted(_design(exists)[:, exists], rises.T.astype(float))[0]
    return values


@dataclass(frozen=True)
class Score:
    """A score of heads.

    Attributes
    ----------
    values : returns values of examples, (n, layers, heads), whose mean is the score; None if it needs no
        examples
    absolute : whether the score is the mean of absolute values instead
    derivative : whether it needs derivatives of the loss
    averaged : whether it needs the mean context vectors of all examples
    donors : source of replacement vectors: 'corrupted' inputs, 'others' for these if given and else other
        examples, or '' for none
    tokens : whether each token has its own gates
    solved : returns the values, (n, layers, heads), if `values` returns those of passes, (n, passes); takes
        these, and which heads exist
    weights : returns the score of a model's weights, (layers, heads), which needs no examples
    """

    values: Callable[[Scored], torch.Tensor] | None = None
    absolute: bool = False
    derivative: bool = True
    averaged: bool = False
    donors: str = ""
    tokens: bool = False
    solved: Callable[[NDArray[np.floating], NDArray[np.bool_]], NDArray[np.floating]] | None = None
    weights: Callable[[HeadGates], NDArray[np.float64]] | None = None

    @property
    def by_example(self) -> bool:
        """Whether it can be computed from single examples, with one gate per head."""
        return not (self.averaged or self.donors or self.tokens)


SCORES = {
    "gradient": Score(gradient, absolute=True),
    "signed": Score(signed),
    "tokens": Score(tokens, tokens=True),
    "integrated": Score(integrated),
    "attribution": Score(attribution, donors="corrupted"),
    "ablation": Score(ablation, derivative=False),
    "mean_ablation": Score(mean_ablation, derivative=False, averaged=True),
    "resample_ablation": Score(resample_ablation, derivative=False, donors="others"),
    "knockouts": Score(knockouts, derivative=False, solved=_effects),
    "magnitude": Score(weights=magnitudes),
}


def chosen(name: str, corrupted: bool = False, also: Sequence[str] = ()) -> Score:
    """Return the score with this name. Raises ValueError if there is none, or corrupted inputs do not fit it.

    `also` are names that the message allows as well.
    """
    if name not in SCORES:
        names = *also, *SCORES
        raise ValueError(f"score: got '{name}', expected one of {', '.join(names)}.{nearest(name, names)}")
    score = SCORES[name]
    if corrupted and not score.donors:
        takers = ", ".join(each for each, other in SCORES.items() if other.donors)
        raise ValueError(f"corrupted: score '{name}' does not use it; expected {takers}")
    if score.donors == "corrupted" and not corrupted:
        raise ValueError(f"corrupted: missing; score '{name}' compares batches with corrupted ones")
    return score
