"""What all decoders of words have in common, on states that are drawn."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headspec.tasks import task_heads
from headspec.tasks.constituents.units import PUNCTUATION
from headspec.tasks.kinds import KINDS
from headspec.tasks.roles.units import PREDICATE
from headspec.tasks.words.base import NONE, written
from headspec.tasks.words.head import Annotations

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


def predicted(name, units):
    """Units that are not given."""
    return sorted(unit for unit in units if LABELS[name][unit[-1]] not in (PUNCTUATION, PREDICATE))


@pytest.fixture(params=WORD_KINDS)
def example(request):
    """Type, decoder, states, annotations, and what is given to `decode`."""
    torch.manual_seed(0)
    name, rng = request.param, np.random.default_rng(1)
    annotations = annotations_of(LENGTHS, [annotation(name, rng, length) for length in LENGTHS])
    classes = {"type": name, "labels": LABELS[name]}
    made = task_heads.head_class(classes).build(SimpleNamespace(hidden=HIDDEN), classes)
    states = torch.randn(len(LENGTHS), max(LENGTHS), HIDDEN)
    return name, made, states, annotations, given(name, annotations)


def given(name, annotations):
    marks = {index for index, label in enumerate(LABELS[name]) if label in (PUNCTUATION, PREDICATE)}
    return annotations.labelled(marks)


def test_it_learns_what_it_is_taught(example):
    """Trees, spans and roles come back from states that it has been fitted to."""
    name, made, states, annotations, known = example
    optimizer = torch.optim.Adam(made.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        loss = made.sentence_losses(states, annotations.lengths, annotations.targets).sum()
        loss.backward()
        optimizer.step()
    with torch.no_grad():
        found = made.decode(states, annotations.lengths, known)
    assert [sorted(units) for units in found] == [predicted(name, units) for units in annotations.gold]
    assert sum(map(len, found)) > 5


def test_padding_changes_nothing(example):
    name, made, states, annotations, known = example
    padded = torch.cat([states, torch.full((len(states), 3, HIDDEN), 9.0)], 1)
    with torch.no_grad():
        losses = made.sentence_losses(padded, annotations.lengths, annotations.targets)
        units = made.decode(padded, annotations.lengths, known)
        for row, length in enumerate(LENGTHS):
            part = slice(row, row + 1)
            alone = states[part, :length], annotations.lengths[part]
            targets = annotations[part].targets
            torch.testing.assert_close(
                made.sentence_losses(*alone, targets), losses[part], rtol=1e-4, atol=1e-5
            )
            assert made.decode(*alone, known[part]) == units[part]
    assert losses.shape == (4,) and max(map(len, units)) > 0


def test_gradients_reach_every_word_and_weight(example):
    name, made, states, annotations, _ = example
    states.requires_grad_()
    losses = made.sentence_losses(states, annotations.lengths, annotations.targets)
    losses.sum().backward()
    for row, length in enumerate(LENGTHS):
        reached = states.grad[row].abs().sum(-1)
        assert (reached[length:] == 0).all()
        assert (reached[:length] > 0).all() == bool(losses[row] > 0)
    assert losses[0] > 0 and all(weight.grad.abs().sum() > 0 for weight in made.parameters())


def test_sentences_without_targets(example):
    """Labels that training does not have, and words that the model does not see, leave nothing to learn."""
    name, made, states, _, _ = example
    gold = [[(0,) * (3 if name == "roles" else 1 if name == "tags" else 2) + (NONE,)]] * 4
    annotations = annotations_of(LENGTHS, gold)
    losses = made.sentence_losses(states, annotations.lengths, annotations.targets)
    assert losses.isfinite().all() and ((losses == 0).all() or name in ("spans", "constituents"))
    units = made.decode(states, annotations.lengths, [[]] * 4)
    assert all(max(unit[:-1]) < length for row, length in zip(units, LENGTHS, strict=True) for unit in row)


def test_a_batch_without_any_unit(example):
    """Such as sentences without names, or without predicates."""
    name, made, states, _, _ = example
    annotations = annotations_of(LENGTHS, [[] for _ in LENGTHS])
    losses = made.sentence_losses(states, annotations.lengths, annotations.targets)
    assert losses.isfinite().all() and (losses > 0).all() == (name in ("spans", "constituents"))
    assert made.sentence_evidence(states, annotations.lengths, annotations.labelled({0})).isfinite().all()


def test_sentences_that_are_cut(example):
    """Units of words beyond the first two are not there, and the rest of the sentence is learnt."""
    name, made, states, annotations, _ = example
    cut = annotations_of(
        [2] * 4, [u if n > 1 else [] for u, n in zip(annotations.gold, LENGTHS, strict=True)]
    )
    losses = made.sentence_losses(states[:, :2], cut.lengths, cut.targets)
    units = made.decode(states[:, :2], cut.lengths, given(name, cut))
    assert losses.isfinite().all() and all(max(unit[:-1]) < 2 for row in units for unit in row)


def test_losses_are_float32_under_autocast(example):
    name, made, states, annotations, known = example
    with torch.autocast("cpu", dtype=torch.bfloat16):
        losses = made.sentence_losses(states, annotations.lengths, annotations.targets)
        units = made.decode(states, annotations.lengths, known)
    exact = made.sentence_losses(states, annotations.lengths, annotations.targets)
    assert losses.dtype == torch.float32 and len(units) == 4
    torch.testing.assert_close(losses, exact, rtol=0.05, atol=0.02)


def test_states_that_are_not_finite_are_decoded(example):
    """Predictions of such sentences are nan, whatever is decoded (`Decoder.predict`)."""
    name, made, states, annotations, known = example
    with torch.no_grad():
        units = made.decode(states.index_fill(0, torch.tensor([1]), torch.nan), annotations.lengths, known)
        assert units[2:] == made.decode(states, annotations.lengths, known)[2:]


def test_annotations_of_words_that_the_model_sees():
    gold = [[(0, 1, 0), (1, 1, 1), (2, 1, NONE), (3, 0, 1)], []]
    annotations = annotations_of([3, 1], gold)
    assert annotations.targets.tolist() == [[[0, 1, 0], [1, 1, 1]], [[NONE] * 3] * 2]
    assert annotations.gold == gold and annotations.labelled({1}) == [[(1, 1, 1)], []]


def test_evidence_is_what_the_prediction_follows_from(example):
    """A sentence alone has the same, it is differentiable, and raising it does not change the prediction."""
    name, made, states, annotations, known = example
    states.requires_grad_()
    evidence = made.sentence_evidence(states, annotations.lengths, known)
    assert evidence.shape == (4,) and evidence.dtype == torch.float32
    evidence.sum().backward()
    for row, length in enumerate(LENGTHS):
        part = slice(row, row + 1)
        alone = made.sentence_evidence(states[part, :length], annotations.lengths[part], known[part])
        torch.testing.assert_close(alone[0], evidence[row], rtol=1e-4, atol=1e-4)
        assert (states.grad[row, length:] == 0).all()
    assert (states.grad[0].abs().sum(-1) > 0).any()
