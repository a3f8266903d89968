"""The annotated units that heads are probed on, and labels that only their words decide."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd

from headspec.atlas.sample import FOLDS, sampled
from headspec.models.batching import Examples
from headspec.seeds import derive
from headspec.tables import INT, TEXT, Schema
from headspec.words.base import NONE

PROBED = Schema(
    {"fold": INT, "direction": TEXT, "layer": INT, "head": INT, "label": TEXT, "right": INT, "control": INT,
     "n": INT},
    keys=5,
)  # fmt: skip
"""Table `probed`: a row for each fold, direction, layer, head and label.
runs/{model}/{mixture}/{method}/seed{seed}/probes/{task}.parquet, probes/{model}/{task}.parquet,
probes/{model}/seed{seed}/{task}.parquet

fold: twentieth of the validation sentences, from 0, the same for all runs
direction: of attention, `to` the unit's second words or `from` them; null for probes of head outputs
label: label of the units
right: units that the head gets right
control: those that the control gets right: of outputs the same probe, fitted to random labels; of attention
    the best fixed offset
"""


@dataclass
class Cases:
    """Units of sentences with a label that training has, as far as the model sees their words.

    Attributes
    ----------
    examples : the sentences; units are in their order
    row, fold : (units,), row of the sentence in `examples`, and its fold
    first, last : (units,), words of the unit that are probed
    other : (units,), word that attends to them or is attended from them; -1 for probes of outputs
    label, control : (units,), index of the label, and of a random one that depends on the words alone
    """

    examples: Examples
    row: np.ndarray
    fold: np.ndarray
    first: np.ndarray
    last: np.ndarray
    other: np.ndarray
    label: np.ndarray
    control: np.ndarray


def cases(
    task: str, tokens: pd.DataFrame, texts: pd.DataFrame, wanted: int, chances: np.ndarray, links: bool
) -> Cases:
    """The units of at most `wanted` sentences of a task.

    Parameters
    ----------
    tokens : table 'tokens'
    texts : table 'data' of the same examples
    chances : (labels,), chance of each label as the control of a unit; drawn once for the same words
        (Hewitt and Liang 2019)
    links : `WordTask.links` of the type
    """
    drawn = sampled(task, len(tokens), wanted)
    examples = Examples(tokens.iloc[drawn])
    words = texts.set_index("example").loc[examples.example, "text_a"].str.split(" ").tolist()
    assert examples.words is not None and examples.units is not None
    edges, controls = np.cumsum(chances)[:-1], dict[str, int]()
    rows = []
    for row, (of_tokens, units) in enumerate(zip(examples.words, examples.units, strict=True)):
        seen = int(of_tokens.max()) + 1
        for *places, label in units:
            other, first, last = places[0] if links else NONE, places[int(links)], places[-1]
            if label == NONE or max(places) >= seen or other == first == last:  # the root of a tree
                continue
            text = " ".join(words[row][first : last + 1]).casefold()
            if text not in controls:
                rng = np.random.default_rng(derive(0, "control label", task, text))
                controls[text] = int(np.searchsorted(edges, rng.random(), side="right"))
            rows.append((row, row % FOLDS, first, last, other, label, controls[text]))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 7).T
    return Cases(examples, *columns)


def label_chances(tokens: pd.DataFrame, labels: int) -> np.ndarray:
    """The share of each label in the units of a table 'tokens', (labels,)."""
    found = [unit[-1] for units in tokens["units"] for unit in units if unit[-1] != NONE]
    return np.bincount(found, minlength=labels) / max(1, len(found))


def counted(
    of: Cases, labels: list[str], right: np.ndarray, control: np.ndarray, direction: str | None
) -> pd.DataFrame:
    """Rows of the table 'probed'.

    Parameters
    ----------
    labels : their names
    right : bool (units, layers, heads)
    control : the same, or (units,) for all heads
    """
    control = np.broadcast_to(control.reshape(len(control), *(control.shape[1:] or (1, 1))), right.shape)
    cell = of.fold * len(labels) + of.label
    cells, group = np.unique(cell, return_inverse=True)
    n = np.bincount(group)
    sums = []
    for hits in (right, control):
        summed = np.zeros((len(cells), *right.shape[1:]), dtype=np.int64)
        np.add.at(summed, group, hits)
        sums.append(summed)
    at, layer, head = (index.ravel() for index in np.indices(sums[0].shape))
    frame = pd.DataFrame(
        {"fold": cells[at] // len(labels), "direction": direction, "layer": layer, "head": head}
    )
    names = np.array(labels, dtype=object)[cells[at] % len(labels)]
    return frame.assign(label=names, right=sums[0].ravel(), control=sums[1].ravel(), n=n[at])
