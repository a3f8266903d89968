"""Spans from BIO tags, and their F1, compared with seqeval's rules and examples."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from seqeval.metrics import f1_score

from headspec.tasks.metrics import score
from headspec.tasks.spans.units import TASK
from headspec.tasks.words import bio, bio_classes
from headspec.tasks.words.base import gold_counts

#: tags of a sentence, with any I-
tags = st.lists(st.sampled_from(["O", "B-X", "I-X", "B-Y-Z", "I-Y-Z"]), min_size=1, max_size=9)


def loose(sentence):
    """Spans of tags that need not be consistent."""
    return list(bio.spans(None if tag == "O" else (tag[0] == "B", tag[2:]) for tag in sentence))


def ours(gold, predicted):
    pairs = [(loose(a), loose(b)) for a, b in zip(gold, predicted, strict=True)]
    label = gold_counts(TASK, [a for a, _ in pairs], [len(a) for a in gold])
    return score("span_f1", label, [TASK.count(*pair) for pair in pairs])


@given(st.lists(st.tuples(tags, tags), min_size=1, max_size=4))
def test_f1_is_that_of_seqeval(pairs):
    gold, predicted = zip(*((a[: len(b)], b[: len(a)]) for a, b in pairs), strict=True)
    assert ours(gold, predicted) == pytest.approx(f1_score([*gold], [*predicted], zero_division=0), abs=1e-12)


def test_examples_of_seqeval():
    """Those of its documentation (get_entities, f1_score)."""
    assert loose(["B-PER", "I-PER", "O", "B-LOC"]) == [(0, 1, "PER"), (3, 3, "LOC")]
    gold = [["O", "O", "O", "B-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    predicted = [["O", "O", "B-MISC", "I-MISC", "I-MISC", "I-MISC", "O"], ["B-PER", "I-PER", "O"]]
    assert ours(gold, predicted) == 0.5


@given(tags)
def test_consistent_tags_are_read_and_others_refused(sentence):
    words = [f"w{place}" for place in range(len(sentence))]
    wrong = [
        place
        for place, tag in enumerate(sentence)
        if tag[0] == "I" and (place == 0 or sentence[place - 1][2:] != tag[2:])
    ]
    if wrong:
        with pytest.raises(ValueError, match=rf"word {wrong[0] + 1} \('w{wrong[0]}'\) has tag I-"):
            TASK.units(words, sentence)
    else:
        units = TASK.units(words, " ".join(sentence))
        assert units == loose(sentence)
        dicts = [{"start": first, "end": last + 1, "type": label} for first, last, label in units]
        assert TASK.units(words, dicts[::-1]) == units


# --- classes of words


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10))
def test_spans_of_classes_come_back(best):
    """Classes of spans give the same spans, each of which starts with a beginning."""
    spans = bio_classes.spans(best)
    rows, found = torch.zeros(len(spans), dtype=torch.long), torch.tensor(spans, dtype=torch.long)
    (again,) = bio_classes.word_classes(rows, found.reshape(-1, 3), (1, len(best)))
    assert bio_classes.spans(again.tolist()) == spans
    assert [each > 0 for each in best] == (again > 0).tolist()


def test_classes_of_spans():
    assert bio_classes.classes(2) == 5
    rows, spans = torch.tensor([1, 1]), torch.tensor([[0, 1, 1], [2, 2, 0]])
    assert bio_classes.word_classes(rows, spans, (2, 4)).tolist() == [[0] * 4, [3, 4, 1, 0]]
    # each begins where the type changes
    assert bio_classes.spans([0, 4, 4, 2, 1]) == [(1, 2, 1), (3, 3, 0), (4, 4, 0)]
