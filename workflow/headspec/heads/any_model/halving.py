"""Batches in parts that fit in memory."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import TypeVar

import torch
from torch import nn

from headspec.heads.any_model.batches import Inputs, count, rows
from headspec.models.attention.parallel import is_divided
from headspec.models.devices import MEMORY_ERRORS, out_of_memory
from headspec.progress import log

Result = TypeVar("Result")


class Halving:
    """Compute on whole batches and, once memory runs out, on smaller and smaller parts.

    Batches of a model that several processes run together are not halved: one process cannot start again
    alone.

    Attributes
    ----------
    most : maximum number of examples that are computed at once
    """

    def __init__(self, model: nn.Module, most: int = sys.maxsize) -> None:
        self.model, self.most = model, most

    def over(self, n: int, compute: Callable[[slice], Result]) -> Iterator[Result]:
        """Yield the results of `compute` for parts of `n` examples, in order.

        Where it runs out of memory, it is repeated with half as many; for one example, the error is raised.
        """
        start = 0
        while start < n:
            part = slice(start, min(n, start + self.most))
            try:
                result = compute(part)
            except MEMORY_ERRORS as error:
                if part.stop - start == 1 or not halves(self.model, error):
                    raise
                self.most = (part.stop - start) // 2
            else:
                yield result
                start = part.stop
                continue
            torch.cuda.empty_cache()  # now that the error holds no tensors
            log.info("out of memory: batches of %d examples from here", self.most)


def halves(model: nn.Module, error: Exception) -> bool:
    """Return whether a pass of a model that ends with this error may succeed on fewer examples."""
    return out_of_memory(error) and not is_divided(model)


def some(batch: Inputs, part: slice, main: str) -> Inputs:
    """Return a part of the examples of a batch; the batch itself if these are all."""
    return batch if part == slice(0, count(batch, main)) else rows(batch, part, main)


def joined(parts: list[dict[int, torch.Tensor]]) -> dict[int, torch.Tensor]:
    """Return the vectors of all parts, by row: (batch, ...)."""
    if len(parts) == 1:
        return parts[0]
    return {row: torch.cat([part[row] for part in parts]) for row in parts[0]}
