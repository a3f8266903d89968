"""Cosines between vectors too long and too many for memory."""

from __future__ import annotations

import itertools
import math
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO

import numpy as np
from numpy.typing import NDArray

#: entries of each vector that are multiplied at a time
BLOCK = 1 << 20


def pairwise_cosines(vectors: Iterable[np.ndarray], folder: Path) -> NDArray[np.float64]:
    """Cosines between all of `vectors`, (k, k); nan where either is zero.

    One vector (n,) float32 and a `BLOCK` of each are in memory at a time. The vectors are kept on the disk of
    `folder` in files without a name, which go with this process even if it is killed.
    """
    with ExitStack() as stack:
        files = []
        for vector in vectors:
            files.append(file := stack.enter_context(tempfile.TemporaryFile(dir=folder)))
            file.write(vector.data)
            del vector  # before the next one is computed
            file.seek(0)
        products = [_inner_products(block) for block in _blocks(files)]
    triangle = np.triu_indices(len(files))
    dots = np.empty((len(files), len(files)))
    dots[triangle] = dots.T[triangle] = [math.fsum(blocks) for blocks in zip(*products, strict=True)]
    squares = np.outer(dots.diagonal(), dots.diagonal())
    return np.divide(dots, np.sqrt(squares), out=np.full_like(dots, np.nan), where=squares > 0)


def _blocks(files: Sequence[IO[bytes]]) -> Iterator[np.ndarray]:
    """The entries of all vectors one after the other, (k, `BLOCK`), the last block with fewer."""
    while (block := np.stack([np.fromfile(file, np.float32, BLOCK) for file in files])).size:
        yield block


def _inner_products(vectors: np.ndarray) -> list[float]:
    """Products of all pairs of `vectors` (k, n), each with itself too, in double precision."""
    return [a @ b for a, b in itertools.combinations_with_replacement(vectors.astype(float), 2)]
