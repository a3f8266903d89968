"""Annotated units that heads are probed on, and random labels that depend on their words alone."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa

from headspec.atlas.sample import FOLDS, sampled
from headspec.models.batching import Examples
from headspec.seeds import derive
from headspec.tables import INT, TEXT, Schema
from headspec.tasks.kinds.words.units import NONE

PROBED = Schema(
    {"fold": INT, "direction": TEXT, "layer": INT, "head": INT, "label": TEXT, "right": INT, "n": INT,
     "control": pa.list_(INT), "n_control": pa.list_(INT)},
    keys=5,
)  # fmt: skip
"""Table `probed`: a row for each fold, direction, head and label.
runs/{model}/{mixture}/{method}/seed{seed}/probes/{task}.parquet, probes/{model}/{task}.parquet,
probes/{model}/seed{seed}/{task}.parquet

fold: twentieth of the validation sentences, the same for all runs
direction: of attention, `to` the unit's second words or `from` them; null for head outputs
label: label of the units
right: units that the head gets right
control: of outputs, units that the probe gets right under each of ten random labellings; of attention, by the
    best fixed offset
n_control: units with this label under each
"""
#: random labellings of the words of a task
LABELLINGS = 10


@dataclass
class Cases:
    """Labelled units of sentences, in order, whose words the model sees and whose label training has."""

    examples: Examples  # the sentences
    row: np.ndarray  # (units,), row of the sentence in `examples`
    fold: np.ndarray  # (units,), of the sentence
    first: np.ndarray  # (units,), first probed word of the unit
    last: np.ndarray  # (units,), last probed word of the unit
    other: np.ndarray  # (units,), word that attends to these or is attended from them; -1 for outputs
    label: np.ndarray  # (units,), index of the label
    control: np.ndarray  # (`LABELLINGS`, units), indices of random labels that depend on the words alone


def cases(
    task: str, tokens: pd.DataFrame, texts: pd.DataFrame, wanted: int, chances: np.ndarray, links: bool
) -> Cases:
    """Return the units of at most `wanted` sentences of a task, from its tables 'tokens' and 'data'.

    `chances` (labels,) of each label as a unit's control apply once per labelling to the same words (Hewitt
    and Liang 2019); `links` is `WordTask.links` of the type.
    """
    drawn = sampled(task, len(tokens), wanted)
    examples = Examples(tokens.iloc[drawn])
    words = texts.set_index("example").loc[examples.example, "text_a"].str.split(" ").tolist()
    assert examples.words is not None
    edges, controls = np.cumsum(chances)[:-1], dict[str, list[int]]()
    rows = []
    for row, (word_of_token, units) in enumerate(
        zip(examples.words, tokens["units"].iloc[drawn], strict=True)
    ):
        seen = int(word_of_token.max()) + 1
        for *places, label in units:
            other, first, last = places[0] if links else NONE, places[int(links)], places[-1]
            if label == NONE or max(places) >= seen or other == first == last:  # the root of a tree
                continue
            text = " ".join(words[row][first : last + 1]).casefold()
            if text not in controls:
                rng = np.random.default_rng(derive(0, "control label", task, text))
                controls[text] = np.searchsorted(edges, rng.random(LABELLINGS), side="right").tolist()
            rows.append((row, row % FOLDS, first, last, other, label, *controls[text]))
    columns = np.array(rows, dtype=np.int64).reshape(-1, 6 + LABELLINGS).T
    return Cases(examples, *[*columns[:6], columns[6:]])


def label_chances(tokens: pd.DataFrame, labels: int) -> np.ndarray:
    """Share of each label in the units of a table 'tokens', (labels,)."""
    found = [unit[-1] for units in tokens["units"] for unit in units if unit[-1] != NONE]
    return np.bincount(found, minlength=labels) / max(1, len(found))


def counted(
    units: Cases,
    labels: list[str],
    places: Sequence[np.ndarray],
    right: np.ndarray,
    controls: Sequence[tuple[np.ndarray, np.ndarray]],
    direction: str | None,
) -> pd.DataFrame:
    """Return rows of the table 'probed', for labels that a unit has, in truth or at random.

    `places` are layer and head, both (heads,); `right` is (units, heads). Each of `controls` has labels
    (units,) and which are right, (units, heads) or (units,) for all heads.
    """

    def summed(label: np.ndarray, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cell = units.fold * len(labels) + label
        sums = np.zeros((FOLDS * len(labels), right.shape[1]), dtype=np.int64)
        np.add.at(sums, cell, hits.reshape(len(hits), -1))
        return sums, np.bincount(cell, minlength=len(sums))

    sums, n = summed(units.label, right)
    at_random = [summed(*control) for control in controls]
    cells = np.flatnonzero(n + sum(units for _, units in at_random))
    at = np.repeat(np.arange(len(cells)), right.shape[1])
    layer, head = (np.tile(place, len(cells)) for place in places)
    frame = pd.DataFrame(
        {"fold": cells[at] // len(labels), "direction": direction, "layer": layer, "head": head}
    )
    names = np.array(labels, dtype=object)[cells[at] % len(labels)]
    hits = np.stack([found[cells].ravel() for found, _ in at_random], axis=1)
    n_control = np.stack([units[cells[at]] for _, units in at_random], axis=1)
    return frame.assign(
        label=names, right=sums[cells].ravel(), n=n[cells[at]], control=list(hits), n_control=list(n_control)
    )
