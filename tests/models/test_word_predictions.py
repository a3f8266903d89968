"""Counts of units that a multi-task model predicts for sentences."""

from __future__ import annotations

import pytest
import torch

from headspec.models.decoders.base import Annotations
from headspec.models.multitask import MultiTask
from headspec.statistics.unit_counts import counts
from headspec.words.base import NONE
from headspec.words.constituents import PUNCTUATION
from headspec.words.roles import PREDICATE
from support import tiny

CLASSES = {
    "roles": {"type": "roles", "labels": ["ARG0", "ARG1", PREDICATE]},
    "trees": {"type": "constituents", "labels": [PUNCTUATION, "NP", "S", "VP+NP"]},
    "arcs": {"type": "dependencies", "labels": ["nsubj", "root"]},
}
#: units of two sentences of four words, of which the model sees three of the second; NONE is a new label
GOLD = {
    "roles": [[(1, 1, 1, 2), (1, 0, 0, 0), (1, 2, 3, 1)], [(3, 3, 3, 2), (3, 0, 0, 0), (1, 1, 1, 2)]],
    "trees": [[(0, 3, 2), (0, 0, 1), (1, 2, 3), (3, 3, 0)], [(0, 3, 2), (0, 1, NONE), (2, 2, 1)]],
    "arcs": [[(0, 1, 0), (1, 1, 1), (2, 1, 0), (3, 2, 0)], [(0, 3, 0), (1, 2, NONE), (2, 2, 1), (3, 2, 0)]],
}  # fmt: skip
#: right units, and predicted ones or words with the right head, of a model that has learnt what it sees
LEARNT = {
    "roles": [(2, 2), (0, 0)],  # the predicate that is not seen has no roles
    "trees": [(4, 4), (1, 1)],  # VP and NP are two brackets
    "arcs": [(4, 4), (1, 1)],  # a word's head is not seen, another's relation is new
}


@pytest.mark.parametrize("task", CLASSES)
def test_a_model_that_has_learnt_predicts_what_it_sees(task):
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert", 0), "mean", CLASSES).eval()
    states = torch.randn(2, 4, model.encoder.config.hidden_size)
    labels = Annotations.of([4, 3], GOLD[task])
    optimizer = torch.optim.Adam(model.classifier(task).parameters(), lr=0.01)
    for _ in range(120):
        optimizer.zero_grad()
        model.losses(task, states, labels).sum().backward()
        optimizer.step()
    with torch.no_grad():
        predicted = model.predictions(task, states, labels)
        assert model.evidence(task, states, labels).shape == (2,)
    found = [tuple(int(counts(each, place)) for place in (0, 1)) for each in predicted]
    (whole, cut), (found_whole, found_cut) = LEARNT[task], found
    assert found_whole == whole and found_cut[0] == cut[0] and predicted.dtype == torch.float32
    unknown = model.predictions(task, states.index_fill(0, torch.tensor([1]), torch.nan), labels)
    assert unknown[0] == predicted[0] and unknown[1].isnan()
