"""Measures of the similarity of two tasks, as functions of their traits; cosines of long vectors.

Measures are symmetric, at most 1, and 1 for equal traits; `headspec.config.measures.similarity` lists them.
Those that compare all weights are in `sensitivity` and `gradient_affinity`.
"""

import itertools
import math
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.tasks.kinds.texts.metrics import SPEARMAN
from headspec.tasks.metrics import score

Floats = NDArray[np.floating]
#: traits of a task by name, as read by functions in `traits`; those of compared tasks have equal shapes
Traits = Mapping[str, Any]


def cosine(a: Floats, b: Floats) -> float:
    """Return the cosine between two vectors (n,); nan if either is zero."""
    a, b = a.astype(float), b.astype(float)
    squares = (a @ a) * (b @ b)
    return float(a @ b / np.sqrt(squares)) if squares > 0 else math.nan


def paradigm(a: Traits, b: Traits) -> float:
    """Return 1 if both tasks take one text, or both take pairs; else 0 (Li et al. 2023)."""
    return float(a["paradigm"] == b["paradigm"])


def text(a: Traits, b: Traits) -> float:
    """Return the cosine between the mean pretrained vectors of training texts (TextEmb; Vu et al. 2020)."""
    return cosine(a["text"], b["text"])


def dse(a: Traits, b: Traits) -> float:
    """Return the mean over sentences of the cosine between the two models' vectors of a sentence.

    It is invariant to scaling either model's vectors and to rotating both the same way. Coordinates
    correspond only between models fine-tuned from the same pretrained encoder.
    """
    x, y = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (a["vectors"], b["vectors"]))
    return float((x * y).sum(axis=1).mean())


def rsa(a: Traits, b: Traits) -> float:
    """Return Spearman's correlation of dissimilarities over all pairs of sentences (CRA; Luo et al. 2022).

    Dissimilarity is 1 minus the Pearson correlation between the entries of two sentences' vectors. The result
    is invariant to positive scaling or shifting of a model's vector of any sentence, to reordering the
    entries of all its vectors, and to rotating them about the direction of equal entries.
    """
    x, y = (1 - np.asarray(np.corrcoef(vectors)) for vectors in (a["vectors"], b["vectors"]))
    pairs = np.triu_indices(len(x), k=1)
    return score(SPEARMAN, x[pairs], y[pairs])


def cka(a: Traits, b: Traits) -> float:
    """Return linear CKA, ||Y'X||^2 / (||X'X|| ||Y'Y||) for centred vectors X, Y (Kornblith et al. 2019).

    It is invariant to rotating, scaling or shifting either model's vectors, and nan if they are all equal.
    Unrelated models score about d / (n + d) over n sentences, for vectors that vary equally in d independent
    directions: compare pairs of tasks with each other, not with 0.
    """
    x, y = (v - v.mean(axis=0, dtype=float) for v in (a["vectors"], b["vectors"]))
    norm = np.linalg.norm(x.T @ x) * np.linalg.norm(y.T @ y)
    return float(np.linalg.norm(y.T @ x) ** 2 / norm) if norm > 0 else math.nan


def head_fisher(a: Traits, b: Traits) -> float:
    """Return the cosine between the diagonals of the empirical Fisher information of the gates of heads."""
    return cosine(a["head_fisher"], b["head_fisher"])


def importance(a: Traits, b: Traits) -> float:
    """Return Spearman's correlation, over heads, of their importance for the two tasks."""
    return score(SPEARMAN, a["importance"], b["importance"])


def top_heads(a: Traits, b: Traits) -> float:
    """Return the Jaccard index of the tasks' sets of most important heads; nan if both are empty."""
    either = (a["top"] | b["top"]).sum()
    return float((a["top"] & b["top"]).sum() / either) if either else math.nan


def cnm(a: Traits, b: Traits) -> float:
    """Return the cosine of the models' scores of a subject's voxels (CogTaskonomy; Luo et al. 2022)."""
    return cosine(a["encoding"], b["encoding"])


# --- all pairs of tasks

#: columns that identify a row of similarity
PAIR = ["measure", "task_a", "task_b", "subject"]


class Measure(NamedTuple):
    """A measure: a function of the traits of two tasks, and the trait that it compares."""

    of: str
    function: Callable[[Traits, Traits], float]


def by_subject(
    paradigms: Mapping[str, str], read: Mapping[str, Mapping[str | None, Mapping[str, Any]]]
) -> dict[str | None, dict[str, Traits]]:
    """Return the traits of every task by subject, with None for traits without subjects.

    `read` has every trait except the paradigm, by subject and task (`headspec.similarity.traits`).
    """
    traits: dict[str | None, dict[str, Any]] = {None: {}}
    of_config = {"paradigm": {None: paradigms}}
    for trait, subjects in (of_config | dict(read)).items():
        for subject, by_task in subjects.items():
            for task, value in by_task.items():
                traits.setdefault(subject, {}).setdefault(task, {})[trait] = value
    return traits


def pairwise(
    subject: str | None, traits: Mapping[str, Traits], tasks: Sequence[str], measures: Mapping[str, Measure]
) -> pd.DataFrame:
    """Return the similarity of every pair of `tasks` by those of `measures` whose trait is in `traits`.

    Columns are measure, task_a, task_b, subject, similarity.
    """
    rows = [
        (name, a, b, subject, measure.function(traits[a], traits[b]))
        for name, measure in measures.items()
        for a, b in itertools.combinations(tasks, 2)
        if measure.of in traits[a]
    ]
    return pd.DataFrame(rows, columns=[*PAIR, "similarity"])


# --- long vectors

#: number of entries of each vector that are multiplied at a time
BLOCK = 1 << 20


def pairwise_cosines(vectors: Iterable[np.ndarray], folder: Path) -> NDArray[np.float64]:
    """Return the cosines between all of `vectors`, (k, k); nan where either vector is zero.

    Memory holds one vector (n,) float32 and a `BLOCK` of each at a time; the rest is in unnamed files in
    `folder`, which disappear with this process even if it is killed.
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
