"""Batches: of one task, of similar lengths, in a schedule that is known before training."""

from __future__ import annotations

import copy
from dataclasses import dataclass

import numpy as np
import pandas as pd
import torch

from headspec.devices import Device, out_of_memory
from headspec.progress import log


@dataclass
class Batch:
    """Padded examples of one task; every tensor on the computing device."""

    input_ids: torch.Tensor  # (batch, tokens)
    attention_mask: torch.Tensor  # (batch, tokens)
    token_type_ids: torch.Tensor | None  # (batch, tokens)
    labels: torch.Tensor  # (batch,): class index or score
    rows: np.ndarray  # (batch,): rows of the Examples

    def part(self, rows: slice) -> Batch:
        """Some of its examples, padded as they are here."""
        kinds = None if self.token_type_ids is None else self.token_type_ids[rows]
        mask, labels = self.attention_mask[rows], self.labels[rows]
        return Batch(self.input_ids[rows], mask, kinds, labels, self.rows[rows])


class Examples:
    """The encoded examples of one task, ragged; `batch` pads the rows it is asked for."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self.example = frame["example"].to_numpy()
        self.label = frame["label"].to_numpy()
        self.ids = frame["input_ids"].tolist()
        self.kinds = None if frame["token_type_ids"].isna().any() else frame["token_type_ids"].tolist()
        self.lengths = np.array([len(ids) for ids in self.ids])

    def __len__(self) -> int:
        return len(self.ids)

    def vocabulary(self) -> np.ndarray:
        """Every token that occurs, sorted."""
        return np.unique(np.concatenate([np.asarray(ids, dtype=np.int64) for ids in self.ids]))

    def renumbered(self, vocabulary: np.ndarray) -> Examples:
        """The same examples, each token replaced by its place in the sorted `vocabulary`."""
        other = copy.copy(self)
        other.ids = [np.searchsorted(vocabulary, ids) for ids in self.ids]
        return other

    def batch(self, rows: np.ndarray, device: str = "cpu") -> Batch:
        shape = (len(rows), int(self.lengths[rows].max()))
        ids, kinds, mask = (np.zeros(shape, dtype=np.int64) for _ in range(3))
        for i, row in enumerate(rows):
            ids[i, : self.lengths[row]] = self.ids[row]
            mask[i, : self.lengths[row]] = 1
            if self.kinds:
                kinds[i, : self.lengths[row]] = self.kinds[row]

        types = put(kinds, device) if self.kinds else None
        return Batch(put(ids, device), put(mask, device), types, put(self.label[rows], device), rows)

    def vectors(self, frame: pd.DataFrame) -> np.ndarray:
        """Their vectors in a table 'representations', (n, hidden) float32."""
        return np.stack(frame.set_index("example")["vector"].loc[self.example].tolist())

    def in_length_order(self, rows: np.ndarray, device: Device) -> LengthOrder:
        """`rows` as batches of similar length, of as many tokens with their padding as `device` takes."""
        return LengthOrder(rows[np.argsort(-self.lengths[rows], kind="stable")], self.lengths, device)


def put(array: np.ndarray, device: str) -> torch.Tensor:
    """`array` on the device; a GPU copies it while it computes, and the processor goes on meanwhile."""
    tensor = torch.from_numpy(array)
    return (tensor.pin_memory() if device == "cuda" else tensor).to(device, non_blocking=True)


class LengthOrder:
    """Batches for evaluation, where the order of examples does not matter; an iterator of rows.

    Longest first, so that a batch that does not fit into memory is met at once. After `halve` it
    comes again, and all others with it, in half the size.
    """

    def __init__(self, order: np.ndarray, lengths: np.ndarray, device: Device) -> None:
        self.order, self.lengths, self.tokens, self.examples = order, lengths, device.tokens, device.examples
        self.start = self.end = 0

    def __iter__(self) -> LengthOrder:
        return self

    def __next__(self) -> np.ndarray:
        if self.end == len(self.order):
            raise StopIteration
        self.start = self.end
        size = min(max(1, self.tokens // int(self.lengths[self.order[self.start]])), self.examples)
        self.end = min(self.start + size, len(self.order))
        return self.order[self.start : self.end]

    def halve(self, error: Exception) -> None:
        """After `error` in computing a batch; raises it where smaller batches are of no help."""
        size = self.end - self.start
        if size == 1 or not out_of_memory(error):
            raise error
        self.tokens = size * int(self.lengths[self.order[self.start]]) // 2
        self.end = self.start
        torch.cuda.empty_cache()
        log.info("out of memory: batches of %d tokens from here", self.tokens)


def in_order(rows: np.ndarray, parts: list[np.ndarray], values: np.ndarray) -> np.ndarray:
    """`values`, (n, ...), in the order of `rows`, (n,), that were computed in the order of `parts`."""
    ordered = np.empty_like(values)
    ordered[np.argsort(rows, kind="stable")] = values[np.argsort(np.concatenate(parts), kind="stable")]
    return ordered


def buckets(lengths: np.ndarray, size: int, rng: np.random.Generator, pool: int = 50) -> list[np.ndarray]:
    """One epoch of shuffled batches of `size` rows of similar length.

    Rows are shuffled, sorted by length within pools of `pool` batches, cut, and the batches
    shuffled: each row once, little padding, and batches that differ between epochs.
    """
    order = rng.permutation(len(lengths))
    batches = []
    for start in range(0, len(order), pool * size):
        part = order[start : start + pool * size]
        part = part[np.argsort(lengths[part], kind="stable")]
        batches += [part[i : i + size] for i in range(0, len(part), size)]
    return [batches[i] for i in rng.permutation(len(batches))]


@dataclass(frozen=True)
class Step:
    """One optimizer step: the epoch (from 0), the task and the rows of its batch."""

    epoch: int
    task: str
    rows: np.ndarray


def schedule(
    examples: dict[str, Examples], size: int, epochs: int, sampling: str, rng: np.random.Generator
) -> list[Step]:
    """Every step of training, in order.

    With n_t batches of task t an epoch has sum(n_t) steps. `proportional` takes each batch once,
    in random order. `sqrt` and `annealed` draw the task of each step with probability
    proportional to n_t ** a, a = 0.5 or a = 1 - 0.8 e / (E - 1) in epoch e = 0 ... E - 1
    (Stickland & Murray 2019); a task's batches are reshuffled when they run out.
    """
    tasks = list(examples)
    counts = np.array([-(-len(examples[t]) // size) for t in tasks])
    stock: dict[str, list[np.ndarray]] = {t: [] for t in tasks}
    steps = []
    for epoch in range(epochs):
        if sampling == "proportional":
            order = rng.permutation(np.repeat(np.arange(len(tasks)), counts))
        else:
            power = 0.5 if sampling == "sqrt" else 1 - 0.8 * epoch / max(epochs - 1, 1)
            weight = counts.astype(float) ** power
            order = rng.choice(len(tasks), size=counts.sum(), p=weight / weight.sum())
        for t in order:
            task = tasks[t]
            if not stock[task]:
                stock[task] = buckets(examples[task].lengths, size, rng)
            steps.append(Step(epoch, task, stock[task].pop()))
    return steps
