"""Cosines between vectors too long and too many for memory."""

import itertools
import math
import tempfile
from collections.abc import Iterable
from contextlib import ExitStack
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

#: entries of each vector that are multiplied at a time
BLOCK = 1 << 20


def pairwise_cosines(vectors: Iterable[np.ndarray], folder: Path) -> NDArray[np.float64]:
    """Cosines between all of `vectors`, (k, k); nan where either is zero.

    One vector (n,) float32 and a `BLOCK` of each are in memory at a time; the rest is in unnamed files in
    `folder`, which go with this process even if it is killed.
    """
    with ExitStack() as stack:
        files = []
        for vector in vectors:
            files.append(file := stack.enter_context(tempfile.TemporaryFile(dir=folder)))
            file.write(vector.data)
            del vector  # before the next one is computed
            file.seek(0)
        products: list[list[float]] = []
        while (block := np.stack([np.fromfile(file, np.float32, BLOCK) for file in files])).size:
            rows = block.astype(float)  # (k, BLOCK), the last with fewer
            products.append([a @ b for a, b in itertools.combinations_with_replacement(rows, 2)])
    triangle = np.triu_indices(len(files))
    dots = np.empty((len(files), len(files)))
    dots[triangle] = dots.T[triangle] = [math.fsum(blocks) for blocks in zip(*products, strict=True)]
    squares = np.outer(dots.diagonal(), dots.diagonal())
    return np.divide(dots, np.sqrt(squares), out=np.full_like(dots, np.nan), where=squares > 0)
