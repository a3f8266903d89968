"""How far training moved the weights of each head, which needs no examples."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import ModelError
from headspec.models.attention.head_parameters import Slice, head_slices
from headspec.models.attention.projections import is_linear, is_plain
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def weight_shifts(gates: HeadGates, base: PreTrainedModel) -> NDArray[np.float64]:
    """Return how far each head's weights are from those in `base`, (layers, heads).

    The score of ALPS (Chen et al. 2025, arXiv:2505.18799), as in the authors' code: the `distance` of a
    head's rows of W_Q, W_K and W_V, one after another, in both models. Heads that share keys and values share
    their rows; biases do not count. It is nan where there is no head.

    Raises ModelError if projections are not plain floats, or `base` has other parameters.
    """
    for site in gates.sites:
        if not all(is_plain(layer.weight) for layer in filter(is_linear, site.attention.modules())):
            raise ModelError(f"the projections of '{site.name}' are quantised or divided; expected floats")
    names = {parameter: name for name, parameter in gates.model.named_parameters()}
    before = dict(base.named_parameters())
    own: dict[tuple[int, int], list[Slice]] = defaultdict(list)
    for each in head_slices(gates, "qkv"):
        name, shape = names[each.parameter], each.parameter.shape
        if name not in before or before[name].shape != shape:
            raise ModelError(f"'{name}' of the model before training is not {tuple(shape)}, as after it")
        for layer, head in np.argwhere(each.heads) if len(shape) == 2 else ():
            own[layer, head].append(each)
    shifts = np.full(gates.exists.shape, np.nan)
    for place in zip(*np.nonzero(gates.exists), strict=True):
        was, now = (
            torch.cat([s.view(whole.detach()).flatten().cpu() for s, whole in pairs])
            for pairs in (
                [(s, before[names[s.parameter]]) for s in own[place]],
                [(s, s.parameter) for s in own[place]],
            )
        )
        shifts[place] = distance(was, now)
    return shifts


def distance(one: torch.Tensor, other: torch.Tensor) -> float:
    """Return the Wasserstein-1 distance between the softmax of two vectors, (n,), over places from 0 to 1."""
    difference = one.double().softmax(0) - other.double().softmax(0)
    return float(difference.cumsum(0).abs().sum() / (len(one) - 1))
