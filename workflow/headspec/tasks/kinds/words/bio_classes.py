"""Spans as classes of words: 0 outside; 2k + 1 at the begin of a span of type k, 2k + 2 inside."""

from collections.abc import Iterable

import torch

from headspec.tasks.kinds.words import bio


def classes(types: int) -> int:
    """Return the number of classes of words."""
    return 2 * types + 1


def word_classes(rows: torch.Tensor, spans: torch.Tensor, shape: tuple[int, int]) -> torch.Tensor:
    """Return classes of words in `shape` (rows, words), for spans (first, last, type) in these rows."""
    found = torch.zeros(shape, dtype=torch.long, device=spans.device)
    place = torch.arange(shape[1], device=spans.device)
    span, word = ((place >= spans[:, :1]) & (place <= spans[:, 1:2])).nonzero(as_tuple=True)
    found[rows[span], word] = 2 * spans[span, 2] + 1 + (word > spans[span, 0]).long()
    return found


def spans(best: Iterable[int]) -> list[tuple[int, int, int]]:
    """Return (first, last, type) of the spans in the classes of a sentence's words."""
    return bio.spans((each % 2 == 1, (each - 1) // 2) if each else None for each in best)
