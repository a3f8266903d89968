"""Parameter-free probes of what single heads know of labels of words (He and Choi 2021, section 5).

Attention finds a unit by its largest weight. In one direction, the first word of a unit attends most to one
of its other words; in the other, more than half of these attend most to it. The control is the best fixed
offset for each label, chosen on one half of the folds and scored on the other, and vice versa.

By its outputs, a head gives a unit the label of the nearest class centroid. Its output for a unit is the mean
over the unit's words of its context vectors, the input of W_O. A centroid is the mean of the training units
with a label; the nearest has the largest cosine.
"""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pyarrow as pa
import torch
from torch.nn import functional as F

from headspec.atlas.attended import most_attended
from headspec.atlas.sample import FOLDS, sampled
from headspec.models.batching import Batch, Examples, put
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.word_tokens import WordTokens
from headspec.progress import Progress
from headspec.seeds import derive
from headspec.statistics.atlas.roles import Attended
from headspec.tables import INT, TEXT, Schema
from headspec.tasks.kinds.words.units import NONE

PROBED = Schema(
    {"fold": INT, "direction": TEXT, "layer": INT, "head": INT, "label": TEXT, "right": INT, "n": INT,
     "control": pa.list_(INT), "n_control": pa.list_(INT)},
    keys=5,
    paths=(
        "{run}/probes/{task}.parquet",
        "probes/{model}/{task}.parquet",
        "probes/{model}/seed{seed}/{task}.parquet",
    ),
    about={
        "fold": "twentieth of the validation sentences, the same for all runs",
        "direction": "of attention, `to` the unit's second words or `from` them; null for head outputs",
        "label": "label of the units",
        "right": "units that the head gets right",
        "control": "of outputs, units that the probe gets right under each of ten random labellings; of "
            "attention, by the best fixed offset",
        "n_control": "units with this label under each",
    },
)  # fmt: skip
#: number of random labellings of a task's words
LABELLINGS = 10


@dataclass
class Cases:
    """Units of sentences, in order, whose words the model sees and whose labels occur in training."""

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

    `chances` (labels,) are the probabilities of control labels, drawn once per labelling for the same words
    (Hewitt and Liang 2019); `links` is `WordTask.links` of the type.
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
    """Return the share of each label in the units of a table 'tokens', (labels,)."""
    labels_of_units = [unit[-1] for units in tokens["units"] for unit in units if unit[-1] != NONE]
    return np.bincount(labels_of_units, minlength=labels) / max(1, len(labels_of_units))


def counted(
    units: Cases,
    labels: list[str],
    places: Sequence[np.ndarray],
    right: np.ndarray,
    controls: Sequence[tuple[np.ndarray, np.ndarray]],
    direction: str | None,
) -> pd.DataFrame:
    """Return rows of the table 'probed', for labels that any unit has, true or random.

    `places` are layer and head, (heads,) each; `right` is (units, heads). Each of `controls` has labels
    (units,) and which are right, (units, heads), or (units,) for all heads.
    """

    def summed(label: np.ndarray, hits: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        cell = units.fold * len(labels) + label  # (units,)
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
    hits = np.stack([right_at_random[cells].ravel() for right_at_random, _ in at_random], axis=1)
    n_control = np.stack([units[cells[at]] for _, units in at_random], axis=1)
    return frame.assign(
        label=names, right=sums[cells].ravel(), n=n[cells[at]], control=list(hits), n_control=list(n_control)
    )


TO, FROM = "to", "from"
#: largest fixed offset
REACH = 10


def probe_attention(model: MultiTask, cases: Cases, labels: list[str], device: Device) -> pd.DataFrame:
    """Return the table 'probed' for the units, in both directions."""
    assert cases.examples.words is not None
    order = np.argsort(cases.examples.example)  # the order of `most_attended`
    frame = most_attended(model, WordTokens(cases.examples, cases.examples.words), device)
    words = Attended.from_table(frame.sort_values(["sentence", "layer", "head"]), "words")
    places = words.layer, words.head
    lengths = np.array([int(word_of_token.max()) + 1 for word_of_token in cases.examples.words])
    starts = np.empty(len(order), dtype=np.int64)
    starts[order] = np.cumsum(lengths[order]) - lengths[order]
    offsets = np.arange(-REACH, REACH + 1)
    fixed = np.broadcast_to(offsets, (len(words.offsets), len(offsets)))
    frames = []
    for direction in (TO, FROM):
        right = _hits(words.offsets, cases, starts, direction)
        by_offset = _hits(fixed, cases, starts, direction)
        control = np.zeros(len(cases.label), dtype=bool)
        for label, side in itertools.product(np.unique(cases.label), (0, 1)):
            labelled, here = cases.label == label, cases.fold % 2 == side
            best = by_offset[labelled & ~here].sum(axis=0).argmax()
            control[labelled & here] = by_offset[labelled & here, best]
        frames.append(counted(cases, labels, places, right, [(cases.label, control)], direction))
    return pd.concat(frames, ignore_index=True)


def _hits(offsets: np.ndarray, cases: Cases, starts: np.ndarray, direction: str) -> np.ndarray:
    """Return whether the largest weights of heads show each unit, (units, heads).

    `offsets` (words, heads) are as in `Attended`; `starts` (sentences,) are places of the first words.
    """
    hits = np.empty((len(cases.label), offsets.shape[1]), dtype=bool)
    units = zip(starts[cases.row], cases.other, cases.first, cases.last, strict=True)
    for i, (start, other, first, last) in enumerate(units):
        if direction == TO:
            target = other + offsets[start + other]
            hits[i] = (target >= first) & (target <= last)
        else:
            attending = np.arange(first, last + 1)
            at = attending[:, None] + offsets[start + attending]
            hits[i] = (at == other).mean(axis=0) > 0.5
    return hits


@torch.no_grad()
def probe_outputs(
    model: MultiTask, train: Cases, test: Cases, labels: list[str], device: Device
) -> pd.DataFrame:
    """Return the table 'probed' for the units of `test`, with centroids from those of `train`."""
    model.to(device.name).eval()
    progress = Progress(len(train.examples) + len(test.examples), "sentences")
    # (1 + labellings, units) each
    targets = [np.stack([cases.label, *cases.control]) for cases in (train, test)]
    sums: torch.Tensor | None = None  # (1 + labellings, labels, heads, size)
    for units, vectors in _vectors(model, train, device, progress):
        one_hot = F.one_hot(put(targets[0][:, units], device.name), len(labels)).to(vectors.dtype)
        summed = torch.einsum("tuk,uhs->tkhs", one_hot, vectors)
        sums = summed if sums is None else sums + summed
    assert sums is not None
    centroids, empty = F.normalize(sums, dim=-1), (sums == 0).all(-1).mT
    right = np.zeros((*targets[1].shape, sums.shape[2]), dtype=bool)
    for units, vectors in _vectors(model, test, device, progress):
        normal = F.normalize(vectors, dim=-1)
        for labelling, label in enumerate(put(targets[1][:, units], device.name)):
            cosines = torch.einsum("uhs,khs->uhk", normal, centroids[labelling])
            nearest = cosines.masked_fill(empty[labelling], -2).argmax(-1)  # never a label without units
            right[labelling, units] = (nearest == label[:, None]).cpu().numpy()
    controls = list(zip(test.control, right[1:], strict=True))
    return counted(test, labels, np.nonzero(model.gates.exists), right[0], controls, None)


def _vectors(
    model: MultiTask, cases: Cases, device: Device, progress: Progress
) -> Iterator[tuple[np.ndarray, torch.Tensor]]:
    """Yield units and the outputs of all heads for them, (units, heads, size), batch by batch."""
    starts = np.searchsorted(cases.row, np.arange(len(cases.examples) + 1))
    size = max(site.size for site in model.gates.sites)

    def compute(batch: Batch) -> tuple[np.ndarray, torch.Tensor]:
        assert batch.words is not None
        rows = batch.rows
        units = np.concatenate([np.arange(starts[row], starts[row + 1]) for row in rows])
        place = np.repeat(np.arange(len(rows)), starts[rows + 1] - starts[rows])
        shares = np.zeros((len(units), batch.words.shape[1]), dtype=np.float32)
        for i, unit in enumerate(units):
            first, last = cases.first[unit], cases.last[unit]
            shares[i, first : last + 1] = 1 / (last + 1 - first)
        with model.gates.recorded() as contexts:
            model.pool(batch)
        padded = (
            F.pad(contexts[row], (0, size - contexts[row].shape[-1])).flatten(-2) for row in sorted(contexts)
        )
        tokens = torch.cat([*padded], dim=-1).float()  # (batch, tokens, heads of all layers * size)
        words = (batch.words @ tokens)[put(place, device.name)]
        vectors = torch.einsum("uw,uwd->ud", put(shares, device.name), words)
        return units, vectors.unflatten(-1, (int(model.gates.exists.sum()), -1))

    for batch, contexts in cases.examples.in_batches(compute, np.arange(len(cases.examples)), device):
        yield contexts
        progress.advance(len(batch.rows))
