"""What a model does with one text alone, without padding, row by row."""

from collections.abc import Iterator

import numpy as np
import torch

from headspec.head_arrays import CROSS, DECODER
from headspec.models.batching import Batch, Examples
from headspec.models.internals.activations import attention_maps
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.translation.head import begun
from support import tiny
from support.reference.contexts import seen

#: tokens that separate texts of `separated`
SEPARATORS = {3, 4}


def separated(n: int) -> Examples:
    """Random texts, most of them with separators between and after, some that start with one."""
    texts = tiny.examples(n, 3, seed=2)
    for i, ids in enumerate(texts.ids):
        if i % 4:
            ids[-1] = 3 + i % 2
        if i % 3 == 0:
            ids[len(ids) // 2] = 4
        if i % 5 == 0:
            ids[0] = 3
    return texts


def alone(examples: Examples, row: int) -> Batch:
    return examples.batch(np.array([row]))


def heads(model: MultiTask) -> list[tuple[int, int]]:
    """A head of every row."""
    return [(row, row % model.gates.heads) for row in range(model.gates.layers)]


@torch.no_grad()
def maps(model: MultiTask, batch: Batch) -> list[np.ndarray]:
    """The attention weights of every row that is read, (heads, attending, attended to)."""
    found: dict[int, np.ndarray] = {}
    with attention_maps(model.gates, lambda row, weights: found.update({row: weights[0].numpy()})):
        model.read(batch)
    return [found[row] for row in sorted(found)]


def tokens(model: MultiTask, batch: Batch) -> Iterator[tuple[list[int], list[int]]]:
    """The tokens that attend, and that are attended to, in every row."""
    source = target = batch.input_ids[0].tolist()
    if model.encoder.config.is_encoder_decoder:
        target = begun(model.encoder, batch.labels.ids)[0].tolist()
    for row in range(model.gates.layers):
        kind = model.gates.kind(row)
        yield (target if kind in (DECODER, CROSS) else source), (target if kind == DECODER else source)


@torch.no_grad()
def contexts(model: MultiTask, batch: Batch) -> list[torch.Tensor]:
    """The context vectors of every row, (tokens, heads, size)."""
    with seen(model.gates) as found:
        model.read(batch)
    return [found[row][0] for row in range(model.gates.layers)]
