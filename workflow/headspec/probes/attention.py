"""Probes of attention: a unit is found where the largest weight falls (He and Choi 2021, section 5).

In one direction the first word of a unit attends most to one of its other words; in the other, more than half
of these attend most to it. The control is the best fixed offset of each label, chosen on one half of the
folds and scored on the other, and the reverse.
"""

import itertools

import numpy as np
import pandas as pd

from headspec.atlas.attended import most_attended
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.tokens.word_tokens import WordTokens
from headspec.probes.cases import Cases, counted
from headspec.statistics.atlas.attended import Attended

TO, FROM = "to", "from"
#: largest fixed offset
REACH = 10


def probe(model: MultiTask, cases: Cases, labels: list[str], device: Device) -> pd.DataFrame:
    """Return the table 'probed' of the units, in both directions."""
    assert cases.examples.words is not None
    order = np.argsort(cases.examples.example)  # as `most_attended` is read
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
    """Whether the largest weights of heads show each unit, (units, heads).

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
