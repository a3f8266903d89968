"""The token, and the word, that each head attends to most, which determine its role."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch.nn import functional as F

from headspec.atlas.sample import sampled
from headspec.head_arrays import DECODER
from headspec.models.batching import Batch, Examples, put
from headspec.models.devices import Device
from headspec.models.internals.activations import attention_maps
from headspec.models.multitask import MultiTask
from headspec.models.word_tokens import WordTokens, encode_words
from headspec.progress import Progress
from headspec.tables import INT, Schema
from headspec.tasks.tokens import encoding

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

ATTENDED = Schema(
    {"sentence": INT, "layer": INT, "head": INT, "tokens": pa.list_(INT), "words": pa.list_(INT)},
    keys=3,
    paths=(
        "{run}/atlas/attended.parquet",
        "{run}/gates/{pruning_method}/{scope}/{kept}/atlas/{kept_for}/attended.parquet",
    ),
    about={
        "tokens": "for each token the offset of the one that it attends to most",
        "words": "the same for words; null for target texts",
    },
)


def attended(
    model: MultiTask,
    tokenizer: PreTrainedTokenizerBase,
    sentences: pd.DataFrame,
    wanted: int,
    device: Device,
    targets: Mapping[str, Examples] | None = None,
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Apply `most_attended` to a treebank; return its table and counts of used and omitted sentences.

    A model reads at most `wanted` sentences like the texts of its tasks, with their prefixes in turn. For an
    encoder-decoder, rows for at most `wanted` target texts of each task in `targets` follow, with decoder
    self-attention. Raises ModelError if all sentences are omitted.
    """
    prefixes = [encoding(each).begin(tokenizer, each) for each in model.classes.values()] or [""]
    drawn = sentences.iloc[np.sort(sampled("treebank", len(sentences), wanted))]
    config = model.encoder.config.to_dict()
    encoded, left_out = encode_words(tokenizer, drawn["words"].tolist(), config, prefixes)
    frame = most_attended(model, encoded, device)
    frame["sentence"] = drawn["sentence"].to_numpy()[frame["sentence"]]
    frames = [frame]
    for task, examples in (targets or {}).items():
        rows = sampled(task, len(examples), wanted)
        first = int(frames[-1]["sentence"].max()) + 1
        frames.append(most_attended_in_targets(model, task, examples, rows, first, device))
    return pd.concat(frames, ignore_index=True), {"sentences": len(encoded.examples), **left_out}


@torch.no_grad()
def most_attended(model: MultiTask, sentences: WordTokens, device: Device) -> pd.DataFrame:
    """Return where the largest weight of every token, and of every word, falls in each head.

    Special tokens neither attend nor are attended to (Voita et al. 2019, for the end token). Attention to a
    word is the sum over its tokens. Attention from a word is the mean (Clark et al. 2019); here it is the
    sum, which has the same maximum. Weights are computed in float32: in bf16, many in a row are equal.
    The table has the schema `ATTENDED`; its sentence is the `example` of `sentences.examples`.
    """
    model.to(device.name)
    examples, words = sentences.examples, sentences.words
    rows, progress = np.arange(len(examples)), Progress(len(examples), "sentences")
    membership: torch.Tensor  # of one batch, (batch, tokens, words): 1 if the token is part of the word
    layers: dict[int, tuple[np.ndarray, np.ndarray]] = {}  # of one batch, each (batch, heads, places)
    table_rows = []

    def receive(layer: int, weights: torch.Tensor) -> None:
        to_words = weights.float() @ membership[:, None]  # (batch, heads, tokens, words)
        between = membership.transpose(1, 2)[:, None] @ to_words  # (batch, heads, words, words)
        layers[layer] = _offsets(weights.float(), membership.any(2)), _offsets(between, membership.any(1))

    def compute(batch: Batch) -> None:
        nonlocal membership
        layers.clear()
        membership = _membership([words[row] for row in batch.rows], device.name)
        model.pool(batch)

    with attention_maps(model.gates, receive):
        for batch, _ in examples.in_batches(compute, rows, device):
            for i, row in enumerate(batch.rows):
                real, number = words[row] >= 0, examples.example[row]
                for layer, (tokens, between) in layers.items():
                    for head in range(tokens.shape[1]):
                        token_targets = tokens[i, head, : len(real)][real]
                        word_targets = between[i, head, : words[row].max() + 1]
                        table_rows.append((number, layer, head, token_targets, word_targets))
            progress.advance(len(batch.rows))
    return pd.DataFrame(table_rows, columns=list(ATTENDED.columns))


@torch.no_grad()
def most_attended_in_targets(
    model: MultiTask, task: str, examples: Examples, rows: np.ndarray, first: int, device: Device
) -> pd.DataFrame:
    """Return where the largest weight of every target token falls, by head, in decoder self-attention.

    Tokens that start or end a text, or name its language, neither attend nor are attended to. The table has
    the schema `ATTENDED`, without texts that are empty; a text's sentence is `first` plus its row.
    """
    model.to(device.name)
    progress, marks = Progress(len(rows), "target texts"), encoding(of := model.classes[task]).marks(of)
    real: torch.Tensor  # of one batch, (batch, tokens)
    layers: dict[int, np.ndarray] = {}  # of one batch, each (batch, heads, tokens)
    table_rows = []

    def receive(layer: int, weights: torch.Tensor) -> None:
        if model.gates.kind(layer) == DECODER:
            layers[layer] = _offsets(weights.float(), real)

    def compute(batch: Batch) -> np.ndarray:
        nonlocal real
        ids, real = batch.head.attending(model, batch)[DECODER]  # (batch, tokens)
        real = real & ~torch.isin(ids, ids.new_tensor(marks))
        real[:, 0] = False  # the decoder's start token
        model.read(batch)
        return real.cpu().numpy()

    with attention_maps(model.gates, receive):
        for batch, places in examples.in_batches(compute, rows, device):
            for i, row in enumerate(batch.rows):
                for layer, offsets in layers.items():
                    for head, head_offsets in enumerate(offsets[i]):
                        table_rows.append((first + int(row), layer, head, head_offsets[places[i]], None))
            progress.advance(len(batch.rows))
    frame = pd.DataFrame(table_rows, columns=list(ATTENDED.columns))
    return frame[frame["tokens"].str.len() > 0]  # without empty texts


def _membership(words: list[np.ndarray], device: str) -> torch.Tensor:
    """Return 1 where a token is part of a word, else 0, (batch, tokens, words) float."""
    tokens = max(map(len, words))
    padded = np.stack([np.pad(row, (0, tokens - len(row)), constant_values=-1) for row in words])
    return F.one_hot(put(padded, device) + 1)[..., 1:].float()  # padding, -1, belongs to no word


def _offsets(weights: torch.Tensor, chosen: torch.Tensor) -> np.ndarray:
    """Return the offset from each place to its largest weight on `chosen` places, bool (batch, places).

    The result is (batch, heads, places).
    """
    target = weights.masked_fill(~chosen[:, None, None], -1).argmax(-1)
    return (target - torch.arange(weights.shape[-1], device=weights.device)).cpu().numpy()
