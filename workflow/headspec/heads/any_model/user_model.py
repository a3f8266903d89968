"""Measuring the heads of a user's model: batches, gates and loss; the model itself is left unchanged."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

import torch

from headspec.errors import listing
from headspec.heads.any_model import text_batches
from headspec.heads.any_model.batches import LABELS, Inputs, arguments, count, rows, without_labels
from headspec.heads.any_model.losses import Loss, own_loss
from headspec.heads.importance import scoring
from headspec.models.attention.placement import device_of
from headspec.models.attention.probe_inputs import UnusualInputs, probe_names, sequences
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase


@contextmanager
def measuring(model: PreTrainedModel) -> Iterator[None]:
    """Turn off dropout and weight gradients, and restore `problem_type`, which models set at first labels."""
    problem = getattr(model.config, "problem_type", None)
    try:
        with scoring(model):
            yield
    finally:
        if hasattr(model.config, "problem_type"):
            model.config.problem_type = problem


def read(
    model: PreTrainedModel,
    batches: Iterable[Any] | None,
    tokenizer: PreTrainedTokenizerBase | None,
    given: Mapping[str, Any],
) -> Iterator[Inputs]:
    """Yield `batches`, or those made from the texts or prompts in `given`, on the model's device.

    Raises ValueError if arguments do not fit together, also as `text_batches.made` and `arguments`.
    """
    named = {name: value for name, value in given.items() if value is not None}
    if batches is None:
        batches = text_batches.made(model, tokenizer, named)
    elif beside := [*named, *(["tokenizer"] if tokenizer is not None else [])]:
        raise ValueError(f"got batches and {listing(beside)}; expected only batches, or none")
    elif isinstance(batches, Mapping):
        raise ValueError("batches: got one batch; expected several, such as [batch]")
    device = device_of(model)
    return (arguments(batch, device) for batch in batches)


def heads_and_loss(
    model: PreTrainedModel, batch: Inputs, loss: Loss | None, inputs: Mapping[str, Any] | None = None
) -> tuple[HeadGates, Loss]:
    """Return the gates of a model for such batches, and its loss per example. Raises as `own_loss`."""
    if loss is not None and not callable(loss):
        raise ValueError(
            f"loss: got a {type(loss).__name__}, expected a function of the model's output and a batch; "
            "scores are passed as scores=..., metrics as metric=..."
        )
    return gated(model, batch, inputs), loss or own_loss(model, batch)


def gated(model: PreTrainedModel, batch: Inputs, inputs: Mapping[str, Any] | None = None) -> HeadGates:
    """Return gates of the heads found with `inputs`, else with the usual inputs or, if they fail, the batch.

    A batch with pixels or audio that the usual inputs lack reaches heads that these do not.
    """
    if inputs is not None:
        return HeadGates(model, inputs)
    few = rows(batch, slice(2), model.main_input_name)
    own = few if model.config.is_encoder_decoder else without_labels(few)  # a decoder may read its labels
    measured = {name for name, value in few.items() if name != LABELS and _is_measured(value)}
    try:
        if measured <= probe_names(model) and sequences(few) == 1:
            usual = HeadGates(model)
            if usual.sequences == 1:
                return usual
    except UnusualInputs:
        pass
    return HeadGates(model, own)


def _is_measured(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point() and value.dim() > 2


def one_by_one(batch: Inputs, main: str) -> Iterator[Inputs]:
    """Yield each example of a batch as a batch. Raises ValueError if a tensor has another number of rows."""
    n = count(batch, main)
    for name, value in batch.items():
        if n > 1 and isinstance(value, torch.Tensor) and value.dim() and len(value) != n:
            raise ValueError(
                f"batches: {name} has {len(value)} rows for {n} examples, which the model mixes; "
                "expected batches of one example"
            )
    yield from (rows(batch, slice(i, i + 1), main) for i in range(n))


Item = TypeVar("Item")
#: a batch, its donor batch, and the shift from an example to its donor there; the shift is None if the donors
#: are corrupted inputs of the same examples
Pair = tuple[Inputs, Inputs | None, int | None]


def with_corrupted(batches: Iterable[Inputs], corrupted: Iterable[Inputs]) -> Iterator[Pair]:
    """Yield batches with their corrupted versions. Raises ValueError if their shapes or masks differ."""
    for number, (batch, other) in enumerate(itertools.zip_longest(batches, corrupted)):
        if batch is None or other is None:
            raise ValueError(f"corrupted: got {'more' if batch is None else 'fewer'} batches than `batches`")
        for name, value in batch.items():
            if name == LABELS or not isinstance(value, torch.Tensor):
                continue
            tensor: Any = other.get(name)
            same = isinstance(tensor, torch.Tensor) and tensor.shape == value.shape
            if not same or ("mask" in name and not torch.equal(tensor, value)):
                shape = tuple(tensor.shape) if isinstance(tensor, torch.Tensor) else "missing"
                raise ValueError(
                    f"corrupted: {name} of batch {number} is {shape}, expected {tuple(value.shape)} with the "
                    "same padding: tokens stand in for those in the same places"
                )
        yield batch, other, None


def with_others(batches: Sequence[Inputs], main: str) -> Iterator[Pair]:
    """Yield each batch with the one half of them further on; a single batch with itself, shifted by half."""
    n = len(batches)
    for number, batch in enumerate(batches):
        shift = count(batch, main) // 2 if n == 1 else 0
        yield batch, batches[(number + n // 2) % n], shift


def shown(items: Iterable[Item], what: str, total: int | None = None) -> Iterator[Item]:
    """Yield items, with a progress bar if they take longer than a few seconds."""
    from transformers.utils import logging  # its bars can be turned off; slow to import

    yield from logging.tqdm(items, desc=what, total=total, delay=3, leave=False)
