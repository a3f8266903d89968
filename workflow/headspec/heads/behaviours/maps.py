"""Attention maps, by a model's own attention function."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import arguments, count
from headspec.heads.any_model.halving import Halving, some
from headspec.models.attention.gating import Receiver
from headspec.models.attention.past import fresh
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import check_model
from headspec.models.gates import HeadGates
from headspec.models.internals import activations

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@torch.inference_mode(False)
def attention_maps(
    model: PreTrainedModel, batch: Mapping[str, Any], heads: Any = None
) -> dict[tuple[int, int], NDArray[np.float32]]:
    """Return the attention weights of heads on a batch.

    They are those of the model's own attention function, even a fused one, and need no
    `output_attentions`.

    Parameters
    ----------
    model : any model of transformers that `HeadGates` takes
    batch : arguments of the model for some examples
    heads : bool (layers, heads), ``{layer: [heads]}``, or pairs (layer, head); by default all

    Returns
    -------
    maps : (layer, head): (examples, tokens, tokens attended to); rows sum to 1, unless a model has sinks

    Raises
    ------
    ModelError
        Heads are not found, or attention that a model computes itself returns no weights.
    ValueError
        `heads` names heads that the model does not have.

    Examples
    --------
    >>> maps = headspec.attention_maps(model, tokenizer("A fine film.", return_tensors="pt"), {3: [0, 2]})
    """
    check_model(model)
    given = arguments(batch, device_of(model))
    with user_model.measuring(model), torch.no_grad():
        gates = user_model.gated(model, given)
        chosen = gates.exists if heads is None else head_arrays.mask(heads, gates.exists)

        def of(part: slice) -> dict[tuple[int, int], NDArray[np.float32]]:
            maps: dict[tuple[int, int], NDArray[np.float32]] = {}

            def receive(row: int, weights: torch.Tensor) -> None:
                for head in np.flatnonzero(chosen[row]).tolist():
                    maps[row, head] = weights[:, head].float().cpu().numpy()

            with captured(gates, receive):
                model(**fresh(some(given, part, model.main_input_name)))
            return maps

        parts = [*Halving(model).over(count(given, model.main_input_name), of)]
    return {head: np.concatenate([part[head] for part in parts]) for head in parts[0]}


@contextmanager
def captured(gates: HeadGates, receive: Receiver) -> Iterator[None]:
    """Pass every row's attention weights to `receive`; where a model computes attention itself, unfused."""
    if any(site.own for site in gates.sites):
        with activations.attention_maps(gates, receive):
            yield
    else:
        with gates.received(receive):
            yield
