"""Behaviours of decoders' heads on random tokens, as measures of the atlas."""

from __future__ import annotations

import functools
from weakref import WeakKeyDictionary

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import ModelError
from headspec.heads.behaviours.probe import Probe
from headspec.heads.behaviours.random_tokens import attended
from headspec.models.architectures import continues
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.config_json import positions

#: sequences, and tokens in each of their halves if the model takes as many
SEQUENCES, TOKENS = 20, 48
#: tokens that may begin a sequence
STARTS = "bos_token_id", "eos_token_id"

#: maps (layers, heads) of models by behaviour, which are the same for all tasks
_found: WeakKeyDictionary[MultiTask, dict[str, NDArray[np.float64]]] = WeakKeyDictionary()


def behaviour(
    name: str, model: MultiTask, task: str, examples: Examples, rows: np.ndarray, device: Device
) -> np.ndarray:
    """Return how far a head's score of a behaviour is above its control, (n, layers, heads).

    It is a mean over random sequences (`headspec.heads.behaviours.table.head_behaviours`), the same for every
    example and task. Raises ModelError if the model is no decoder, or takes too few tokens.
    """
    known = _found.setdefault(model, {})
    if name not in known:
        known[name] = _above(name, model)
    return np.broadcast_to(known[name], (len(rows), *known[name].shape))


@torch.no_grad()
def _above(name: str, model: MultiTask) -> NDArray[np.float64]:
    config = model.encoder.config.get_text_config()
    if not continues(model.encoder.config.to_dict()):
        raise ModelError(f"'{name}' is of decoders; the model is a {model.encoder.config.model_type}")
    most = positions(config.to_dict())
    tokens = min(TOKENS, (most - 1) // 2) if most else TOKENS
    starts = (getattr(config, each, None) for each in STARTS)
    start = next((int(np.ravel(each)[0]) for each in starts if each is not None), 0)
    try:
        scores, controls = attended(name, Probe(model.gates, None, start, SEQUENCES, tokens, 0, {}))
    except ValueError as error:
        raise ModelError(f"'{name}' reads random tokens twice: {error}") from None
    above: NDArray[np.float64] = np.mean(scores - controls, axis=0)
    return above


previous_token = functools.partial(behaviour, "previous_token")
duplicate_token = functools.partial(behaviour, "duplicate_token")
induction = functools.partial(behaviour, "induction")
first_token = functools.partial(behaviour, "first_token")
