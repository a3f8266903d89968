"""Counts of units that a multi-task model predicts for sentences."""

import pytest
import torch

from headspec.models.multitask import MultiTask
from headspec.tasks.constituents.units import PUNCTUATION
from headspec.tasks.roles.units import PREDICATE
from headspec.tasks.words.base import NONE, written
from headspec.tasks.words.head import Annotations
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


#: what a model has learnt of a sentence of four words, and its units, some with labels that training lacks
NEW = {
    "roles": ([(1, 1, 1, 2), (1, 0, 0, 0)], [(1, 1, 1, PREDICATE), (1, 0, 0, "ARG0"), (1, 3, 3, "C-ARG0")]),
    "trees": ([(0, 3, 2), (0, 1, 1), (3, 3, 1)], [(0, 3, "S"), (0, 1, "ADJP+NP"), (3, 3, "NP+X+NP")]),
    "arcs": ([(0, 1, 0), (1, 1, 1), (2, 1, 0), (3, 2, 0)], GOLD["arcs"][0][:3] + [(3, 2, "obj")]),
}
#: an argument that goes on is wrong; of joint constituents, a part is right; a new relation has a head
FOUND = {"roles": (0, 1), "trees": (3, 3), "arcs": (3, 4)}


def names(task: str, units: list[tuple]) -> str:
    """Units with the names of their labels."""
    labels = [*CLASSES[task]["labels"], "new"]
    return written([(*u[:-1], u[-1] if isinstance(u[-1], str) else labels[u[-1]]) for u in units])


def learnt(task: str, labels: Annotations) -> tuple[MultiTask, torch.Tensor]:
    """A model whose decoder is fitted to states of sentences, and these."""
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert", 0), "mean", CLASSES).eval()
    states = torch.randn(len(labels.lengths), 4, model.encoder.config.hidden_size)
    optimizer = torch.optim.Adam(model.classifier(task).parameters(), lr=0.01)
    for _ in range(120):
        optimizer.zero_grad()
        model.losses(task, states, labels).sum().backward()
        optimizer.step()
    return model, states


def found_by(model: MultiTask, task: str, states: torch.Tensor, labels: Annotations) -> list[tuple[int, int]]:
    with torch.no_grad():
        predicted = model.predictions(task, states, labels)
    return [(int(first), int(second)) for first, second in predicted]


@pytest.mark.parametrize("task", CLASSES)
def test_units_with_a_label_that_training_lacks_are_judged_as_what_they_are(task):
    taught, gold = NEW[task]
    model, states = learnt(task, Annotations.padded([4], [taught], [names(task, taught)]))
    asked = Annotations.padded([4], [[(0,) * (len(gold[0]) - 1) + (NONE,)]], [names(task, gold)])
    assert found_by(model, task, states, asked) == [FOUND[task]]


@pytest.mark.parametrize("task", CLASSES)
def test_a_model_that_has_learnt_predicts_what_it_sees(task):
    labels = Annotations.padded([4, 3], GOLD[task], [names(task, units) for units in GOLD[task]])
    model, states = learnt(task, labels)
    with torch.no_grad():
        predicted = model.predictions(task, states, labels)
        assert model.evidence(task, states, labels).shape == (2,)
    (whole, cut), (found_whole, found_cut) = LEARNT[task], found_by(model, task, states, labels)
    assert found_whole == whole and found_cut[0] == cut[0] and predicted.dtype == torch.float32
    unknown = model.predictions(task, states.index_fill(0, torch.tensor([1]), torch.nan), labels)
    assert unknown[0].equal(predicted[0]) and unknown[1].isnan().all()
