"""Padded batches of one task's examples, sorted by length; several continuations of a text share a row.

Each continuation in a row attends to the text and to itself, at the positions that it would have alone. An
example with several continuations is thus one row of a batch, with the gates, states and attention of one
row.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import torch

from headspec import per_example
from headspec.models.devices import MEMORY_ERRORS, Device, out_of_memory
from headspec.progress import Progress, log
from headspec.tasks import task_heads
from headspec.tasks.parts import Classes
from headspec.tasks.task_heads import TaskHead

#: target after the end of a continuation, and branch of padding
NO_CONTINUATION = -1


def in_a_row(text: Sequence[int], continuations: Sequence[Sequence[int]]) -> tuple[list[int], list[int]]:
    """Return the tokens that a model reads to score continuations, and their branches.

    Tokens are those of the text, then of every continuation without its last token, which predicts nothing.
    Branches are 0 for tokens of the text and i for tokens of the i-th continuation, from 1.
    """
    ids, branches = list(text), [0] * len(text)
    for branch, tokens in enumerate(continuations, 1):
        ids += tokens[:-1]
        branches += [branch] * (len(tokens) - 1)
    return ids, branches


def continuations_attention(branches: torch.Tensor, dtype: torch.dtype) -> dict[str, torch.Tensor]:
    """Return encoder arguments that hide continuations in a row from each other.

    `branches` are (batch, tokens), as from `in_a_row`, and `NO_CONTINUATION` for padding. The
    attention_mask, (batch, 1, tokens, tokens), is added to the logits of attention; position_ids are (batch,
    tokens).
    """
    n = branches.shape[1]
    before = torch.ones(n, n, dtype=torch.bool, device=branches.device).tril()
    text = branches[:, None] == 0
    attended = before & (text | (branches[:, None] == branches[..., None]))  # (batch, tokens, tokens)
    mask = torch.zeros(attended.shape, dtype=dtype, device=branches.device)
    mask = mask.masked_fill(~attended, torch.finfo(dtype).min)
    return {"attention_mask": mask[:, None], "position_ids": attended.sum(-1) - 1}


Result = TypeVar("Result")
#: rows of examples
Rows = np.ndarray | slice
#: fewest shared tokens for which a separate pass is worthwhile
LEAST_SHARED = 16
#: number of cached tokens, only attended to, that cost as much as a computed one
ATTENDED = 8


@dataclass
class Batch:
    """Padded examples of one task, with all tensors on one device."""

    input_ids: torch.Tensor  # (batch, tokens)
    attention_mask: torch.Tensor  # (batch, tokens)
    token_type_ids: torch.Tensor | None  # (batch, tokens)
    labels: Any  # (batch,) class index or score, or `headspec.tasks.task_heads.Targets`
    rows: np.ndarray  # (batch,): rows of the Examples
    words: torch.Tensor | None = None  # (batch, words, tokens): weight of each token in the state of a word
    branches: torch.Tensor | None = None  # (batch, tokens): number of the token's continuation
    prefix: int = 0  # number of leading tokens that all rows share, read once for all
    head: type[TaskHead] = TaskHead  # the task's

    def part(self, rows: slice) -> Batch:
        """Return a slice of the batch, with the same padding."""
        names = {"input_ids", "attention_mask", "token_type_ids", "labels", "rows", "words", "branches"}
        values = {name: value for name, value in vars(self).items() if name in names and value is not None}
        return replace(self, **{name: value[rows] for name, value in values.items()})


class Examples:
    """Tokens and labels of one task's examples, from a table 'tokens'.

    Attributes
    ----------
    gold : targets, which predictions are compared with
    label : (n,) class index or score, or (n, values) for metrics
    lengths : (n,), in tokens
    words : the word of every token of a sentence, from 0, or -1; 0 at the mask of a prompt; None for texts
    branches : where continuations are scored, the continuation of every token; `ids` are then as from
        `headspec.models.batching.in_a_row`
    """

    def __init__(self, frame: pd.DataFrame, head: type[TaskHead] = TaskHead) -> None:
        self.example = frame["example"].to_numpy()
        self.label = per_example.array(frame, "label")
        self.head = head
        self.gold: Any = head.gold(frame)
        self.ids = frame["input_ids"].tolist()
        self.token_types = None if frame["token_type_ids"].isna().any() else frame["token_type_ids"].tolist()
        self.branches = self.words = None
        if "continuations" in frame and frame["continuations"].notna().all():
            continued = [[list(tokens) for tokens in texts] for texts in frame["continuations"]]
            self.ids, self.branches = map(list, zip(*map(in_a_row, self.ids, continued), strict=True))
        if "words" in frame and frame["words"].notna().all():
            self.words = [np.asarray(words, dtype=np.int64) for words in frame["words"]]
        self.lengths = np.array([len(ids) for ids in self.ids])

    @classmethod
    def for_task(cls, frame: pd.DataFrame, classes: Classes) -> Examples:
        """Return the examples of a task with these `Classes`."""
        return cls(frame, task_heads.head_class(classes))

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def prefix(self) -> int:
        """Return the number of leading tokens that all share, with more to follow in each.

        It is 0 below `LEAST_SHARED`, or with token types.
        """
        shared = min(len(os.path.commonprefix([list(ids) for ids in self.ids])), int(self.lengths.min()) - 1)
        return shared if shared >= LEAST_SHARED and not self.token_types else 0

    def vocabulary(self) -> np.ndarray:
        """Return the distinct tokens, sorted, (distinct,)."""
        return np.unique(np.concatenate([np.asarray(ids, dtype=np.int64) for ids in self.ids]))

    def renumbered(self, vocabulary: np.ndarray) -> Examples:
        """Return the examples with each token as its index in the sorted `vocabulary`, (distinct,)."""
        other = copy.copy(self)
        other.ids = [np.searchsorted(vocabulary, ids) for ids in self.ids]
        return other

    def batch(self, rows: np.ndarray, device: str = "cpu") -> Batch:
        """Return the examples `rows`, (batch,), padded to the longest of them."""
        lengths = self.lengths[rows]  # (batch,)

        def padded(sequences: Sequence[Sequence[int]], fill: int = 0) -> torch.Tensor:
            array = np.full((len(rows), lengths.max()), fill, dtype=np.int64)  # (batch, tokens)
            for values, length, row in zip(array, lengths, rows, strict=True):
                values[:length] = sequences[row]
            return put(array, device)

        mask = put((np.arange(lengths.max()) < lengths[:, None]).astype(np.int64), device)
        labels = self.gold[rows]
        if device == "cuda" and isinstance(labels, torch.Tensor):
            labels = labels.pin_memory()  # so that copying does not wait for the GPU
        labels = labels.to(device, non_blocking=True)
        types = None if self.token_types is None else padded(self.token_types)
        words = None if self.words is None else put(_shares([self.words[row] for row in rows]), device)
        branches = None if self.branches is None else padded(self.branches, NO_CONTINUATION)
        return Batch(padded(self.ids), mask, types, labels, rows, words, branches, head=self.head)

    def vectors(self, frame: pd.DataFrame) -> np.ndarray:
        """Return the examples' vectors in a table 'representations', (n, hidden) float32."""
        return np.stack(frame.set_index("example")["vector"].loc[self.example].tolist())

    def predicted(
        self, task: str, values: np.ndarray, texts: np.ndarray | None = None, rows: Rows = slice(None)
    ) -> pd.DataFrame:
        """Return a table of task, example, label, prediction and any predicted texts of `rows`.

        `values` are (len(rows),) or (len(rows), values), `texts` (len(rows),).
        """
        columns = {"task": task, "example": self.example[rows]}
        columns |= per_example.columns("label", self.label[rows])
        return pd.DataFrame(columns | per_example.columns("prediction", values, texts))

    def values(
        self, compute: Callable[[Batch], torch.Tensor], rows: np.ndarray, device: Device,
        progress: Progress | None = None, note: str = "", passes: int = 1, prefix: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """Compute values of examples, (len(rows), ...) in the order of `rows`, in batches of similar length.

        Batches get smaller when memory runs out. Values stay on the device until the last batch, so that the
        CPU waits only once. `compute` returns the values of a batch, (batch, ...). `progress` advances after
        every batch, with `note`, by `passes` per example. The first `prefix` tokens, shared by all examples,
        are read once per batch.
        """
        done: list[np.ndarray] = []
        parts: list[torch.Tensor] = []
        for batch, computed in self.in_batches(compute, rows, device, prefix):
            parts.append(computed)
            done.append(batch.rows)
            if progress:
                progress.advance(passes * len(batch.rows), note)
        ordered = np.empty_like(values := torch.cat(parts).cpu().numpy())
        ordered[np.argsort(rows, kind="stable")] = values[np.argsort(np.concatenate(done), kind="stable")]
        return ordered

    def in_batches(
        self, compute: Callable[[Batch], Result], rows: np.ndarray, device: Device, prefix: int = 0
    ) -> Iterator[tuple[Batch, Result]]:
        """Yield batches of `rows` (n,) of similar length, with the results of `compute`.

        Batches are halved when memory runs out.
        """
        for chunk in (batches := self.in_length_order(rows, device, prefix)):
            try:
                batch = self.batch(chunk, device.name)
                batch.prefix = prefix if len(chunk) > 1 else 0
                computed = compute(batch)
            except MEMORY_ERRORS as error:
                batches.halve(error)
                continue
            yield batch, computed

    def in_length_order(self, rows: np.ndarray, device: Device, prefix: int = 0) -> LengthOrder:
        """Return `rows` (n,) in batches of similar length, sized for `device`; `prefix` as in `values`."""
        lengths = self.lengths - prefix + -(-prefix // ATTENDED)  # (examples,)
        return LengthOrder(rows[np.argsort(-lengths[rows], kind="stable")], lengths, device)


def _shares(words: list[np.ndarray]) -> np.ndarray:
    """Return the weight of each token in the state of a word, (batch, words, tokens).

    `words` has the word of every token, (tokens,) each.
    """
    counts = [int(numbers.max()) + 1 for numbers in words]
    shares = np.zeros((len(words), max(counts), max(map(len, words))), dtype=np.float32)
    for share, numbers, count in zip(shares, words, counts, strict=True):
        inside = numbers == np.arange(count)[:, None]  # (words, tokens)
        share[:count, : len(numbers)] = inside / inside.sum(1, keepdims=True).clip(1)
    return shares


def put(array: np.ndarray, device: str) -> torch.Tensor:
    """Return `array`, of any shape, on the device; copying to a GPU is asynchronous."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device == "cuda" else tensor).to(device, non_blocking=True)


class LengthOrder:
    """Iterator over batches of rows for evaluation, longest first, so that memory runs out early if at all.

    After `halve`, the batch is repeated, and it and all later batches have at most half its tokens.

    Parameters
    ----------
    order : rows, (n,), the longest first
    lengths : of all examples, (examples,)
    """

    def __init__(self, order: np.ndarray, lengths: np.ndarray, device: Device) -> None:
        self.order, self.lengths, self.tokens = order, lengths, device.tokens
        self.fewest, self.examples = device.fewest, device.examples
        self.start = self.end = 0

    def __iter__(self) -> LengthOrder:
        return self

    def __next__(self) -> np.ndarray:
        if self.end == len(self.order):
            raise StopIteration
        self.start = self.end
        size = max(self.fewest, self.tokens // int(self.lengths[self.order[self.start]]))
        size = min(size, self.examples)
        self.end = min(self.start + size, len(self.order))
        return self.order[self.start : self.end]

    def halve(self, error: Exception) -> None:
        """Halve the tokens per batch after `error`; raise it again if smaller batches would not help."""
        size = self.end - self.start
        if size == 1 or not out_of_memory(error):
            raise error
        self.tokens, self.fewest = size * int(self.lengths[self.order[self.start]]) // 2, 1
        self.end = self.start
        torch.cuda.empty_cache()
        log.info("out of memory: batches of %d tokens from here", self.tokens)
