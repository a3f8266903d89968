"""What all decoders of words have in common, on states that are drawn."""

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from headspec.tasks import task_heads
from headspec.tasks.kinds.words.decoders import Annotations
from headspec.tasks.kinds.words.spans import PREDICATE
from headspec.tasks.kinds.words.trees import PUNCTUATION
from headspec.tasks.kinds.words.units import NONE, written
from headspec.tasks.registry import KINDS

HIDDEN = 24
LENGTHS = [7, 1, 4, 6]
WORD_KINDS = [name for name, kind in KINDS.items() if kind.on_words]
LABELS = {name: ["A", "B", "C"] for name in WORD_KINDS}
LABELS["constituents"] = [PUNCTUATION, "A", "A+B", "C"]
LABELS["roles"] = ["A", "B", "C-A", PREDICATE]


def disjoint(rng, length, label):
    """Spans that do not overlap."""
    cuts = np.flatnonzero(rng.integers(2, size=length + 1))
    return [(a, b - 1, label()) for a, b in zip(cuts, cuts[1:], strict=False)]


def nested(rng, first, last, label):
    """Spans that do not cross."""
    here = [(first, last, label())] if rng.integers(3) else []
    if first == last:
        return here
    middle = int(rng.integers(first, last))
    return here + nested(rng, first, middle, label) + nested(rng, middle + 1, last, label)


def annotation(name, rng, length):
    """Units of a sentence, with labels by index."""
    labels = [index for index, label in enumerate(LABELS[name]) if label not in (PUNCTUATION, PREDICATE)]

    def label():
        return int(rng.choice(labels))

    if name == "tags":
        return [(word, label()) for word in range(length)]
    if name == "spans":
        return disjoint(rng, length, label)
    if name == "dependencies":
        order = rng.permutation(length).tolist()
        heads = {word: order[rng.integers(max(at, 1))] for at, word in enumerate(order)}
        return [(word, heads[word], label()) for word in range(length)]
    if name == "constituents":
        return [*nested(rng, 0, length - 1, label), (length - 1, length - 1, 0)]
    predicates = np.flatnonzero(rng.integers(2, size=length)).tolist()
    units = [(at, at, at, LABELS[name].index(PREDICATE)) for at in predicates]
    return units + [(at, *span) for at in predicates for span in disjoint(rng, length, label)]


def annotations_of(lengths, units):
    """Annotations that have the indices of labels in place of their names."""
    plain = [[tuple(map(int, unit)) for unit in sentence] for sentence in units]
    return Annotations.padded(lengths, plain, list(map(written, plain)))


@dataclass
class Taught:
    """A decoder of a type, states of sentences, their annotations, and what is given to `decode`."""

    name: str
    made: Any
    states: torch.Tensor
    annotations: Annotations

    @property
    def given(self) -> list:
        marks = [index for index, label in enumerate(LABELS[self.name]) if label in (PUNCTUATION, PREDICATE)]
        return self.annotations.labelled(marks)

    def losses(self) -> torch.Tensor:
        return self.made.sentence_losses(self.states, self.annotations.lengths, self.annotations.targets)

    def evidence(self) -> torch.Tensor:
        return self.made.sentence_evidence(self.states, self.annotations.lengths, self.given)

    def decode(self) -> list:
        with torch.no_grad():
            return self.made.decode(self.states, self.annotations.lengths, self.given)

    def alone(self, row: int) -> "Taught":
        """A sentence without padding."""
        part = slice(row, row + 1)
        return replace(self, states=self.states[part, : LENGTHS[row]], annotations=self.annotations[part])


@pytest.fixture(params=WORD_KINDS)
def example(request) -> Taught:
    torch.manual_seed(0)
    name, rng = request.param, np.random.default_rng(1)
    annotations = annotations_of(LENGTHS, [annotation(name, rng, length) for length in LENGTHS])
    classes = {"type": name, "labels": LABELS[name]}
    made = task_heads.head_class(classes).build(SimpleNamespace(hidden=HIDDEN), classes)
    return Taught(name, made, torch.randn(len(LENGTHS), max(LENGTHS), HIDDEN), annotations)


def test_it_learns_what_it_is_taught(example):
    """Trees, spans and roles come back from states that it has been fitted to."""
    optimizer = torch.optim.Adam(example.made.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        example.losses().sum().backward()
        optimizer.step()
    found, given = example.decode(), (PUNCTUATION, PREDICATE)
    for units, gold in zip(found, example.annotations.gold, strict=True):
        assert sorted(units) == sorted(unit for unit in gold if LABELS[example.name][unit[-1]] not in given)
    assert sum(map(len, found)) > 5


def test_padding_changes_nothing_and_gradients_reach_every_word_and_weight(example):
    padded = replace(example, states=torch.cat([example.states, torch.full((4, 3, HIDDEN), 9.0)], 1))
    padded.states.requires_grad_()
    losses, evidence, units = padded.losses(), padded.evidence(), padded.decode()
    assert evidence.shape == losses.shape == (4,) and evidence.dtype == torch.float32
    for row in range(4):
        alone = example.alone(row)
        torch.testing.assert_close(alone.losses()[0], losses[row], rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(alone.evidence()[0], evidence[row], rtol=1e-4, atol=1e-4)
        assert alone.decode() == units[row : row + 1]
    assert max(map(len, units)) > 0 and losses[0] > 0
    (of_evidence,) = torch.autograd.grad(evidence.sum(), padded.states)
    losses.sum().backward()
    for row, length in enumerate(LENGTHS):
        reached = padded.states.grad[row].abs().sum(-1)
        assert (reached[length:] == 0).all() and (of_evidence[row, length:] == 0).all()
        assert (reached[:length] > 0).all() == bool(losses[row] > 0)
    assert (of_evidence[0].abs().sum(-1) > 0).any()
    assert all(weight.grad.abs().sum() > 0 for weight in example.made.parameters())


def test_sentences_without_units_have_nothing_to_learn(example):
    """Such as sentences without names, labels that training lacks, and words that the model does not see."""
    spans = example.name in ("spans", "constituents")
    unknown = (0,) * {"roles": 3, "tags": 1}.get(example.name, 2) + (NONE,)
    for gold in ([[unknown]] * 4, [[]] * 4):
        bare = replace(example, annotations=annotations_of(LENGTHS, gold))
        losses = bare.losses()
        assert losses.isfinite().all() and ((losses > 0).all() if spans else (losses == 0).all())
        assert bare.evidence().isfinite().all()
        for row, length in zip(bare.decode(), LENGTHS, strict=True):
            assert all(max(unit[:-1]) < length for unit in row)
    gold = [u if n > 1 else [] for u, n in zip(example.annotations.gold, LENGTHS, strict=True)]
    cut = replace(example, states=example.states[:, :2], annotations=annotations_of([2] * 4, gold))
    assert cut.losses().isfinite().all()
    assert all(max(unit[:-1]) < 2 for row in cut.decode() for unit in row)


def test_losses_are_float32_under_autocast(example):
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses, units = example.losses(), example.decode()
    assert losses.dtype == torch.float32 and len(units) == 4
    torch.testing.assert_close(losses, example.losses(), rtol=0.05, atol=0.02)


def test_states_that_are_not_finite_are_decoded(example):
    """Predictions of such sentences are nan, whatever is decoded (`Decoder.predict`)."""
    broken = replace(example, states=example.states.index_fill(0, torch.tensor([1]), torch.nan))
    assert broken.decode()[2:] == example.decode()[2:]


def test_annotations_are_of_words_that_the_model_sees():
    gold = [[(0, 1, 0), (1, 1, 1), (2, 1, NONE), (3, 0, 1)], []]
    annotations = annotations_of([3, 1], gold)
    assert annotations.targets.tolist() == [[[0, 1, 0], [1, 1, 1]], [[NONE] * 3] * 2]
    assert annotations.gold == gold and annotations.labelled({1}) == [[(1, 1, 1)], []]
