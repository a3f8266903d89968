"""Classes of words for spans."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from headspec.tasks.words import bio_classes as bio


@given(st.lists(st.integers(0, 6), min_size=1, max_size=10))
def test_spans_come_back(best):
    """Classes of spans give the same spans, each of which starts with a beginning."""
    spans = bio.spans(best)
    again = bio.word_classes(
        torch.zeros(len(spans), dtype=torch.long),
        torch.tensor(spans, dtype=torch.long).reshape(-1, 3),
        (1, len(best)),
    )
    assert bio.spans(again[0].tolist()) == spans
    assert [each > 0 for each in best] == (again[0] > 0).tolist()


def test_classes():
    assert bio.classes(2) == 5
    rows, spans = torch.tensor([1, 1]), torch.tensor([[0, 1, 1], [2, 2, 0]])
    assert bio.word_classes(rows, spans, (2, 4)).tolist() == [[0] * 4, [3, 4, 1, 0]]
    assert bio.spans([0, 4, 4, 2, 1]) == [
        (1, 2, 1),
        (3, 3, 0),
        (4, 4, 0),
    ]  # each begins where the type changes
