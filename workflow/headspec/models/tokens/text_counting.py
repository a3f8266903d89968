"""What metrics count of texts, by sacrebleu: predictions and labels of texts.

Apart from the metrics (`headspec.statistics.text_counts`), so that statistics do not need it.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from headspec import outcomes
from headspec.statistics.text_counts import of_sums

#: references that are tried as the constant prediction, and sentences that they are compared on
TRIED, COMPARED = 10, 200


@functools.cache
def _sacrebleu() -> tuple[Any, Any]:
    from sacrebleu.metrics import BLEU as Bleu
    from sacrebleu.metrics import CHRF as Chrf  # slow to import, and only needed where texts are predicted

    return Bleu(), Chrf()


def used() -> bool:
    """Whether this process has counted anything of a text."""
    return _sacrebleu.cache_info().currsize > 0


def signatures() -> dict[str, str]:
    """Metric: how sacrebleu computes it, in its own notation."""
    bleu, chrf = _sacrebleu()
    counted(["text"], ["text"])  # a signature has the number of references
    return {"bleu": str(bleu.get_signature()), "chrf": str(chrf.get_signature())}


def counted(texts: Sequence[str], references: Sequence[str]) -> list[tuple[int, ...]]:
    """The counts of each text."""
    of_words, of_characters = (
        # the sums of corpus scores before they are summed, which have no public name
        metric._extract_corpus_statistics(list(texts), [list(references)])
        for metric in _sacrebleu()
    )
    same = [int(text.strip() == reference.strip()) for text, reference in zip(texts, references, strict=True)]
    return [(*a, *b, c) for a, b, c in zip(of_words, of_characters, same, strict=True)]


def numbers(texts: Sequence[str], references: Sequence[str]) -> list[float]:
    """The predictions of texts."""
    counts = counted(texts, references)
    return [outcomes.number(of_text, text) for of_text, text in zip(counts, texts, strict=True)]


def labels(references: Sequence[str]) -> list[float]:
    """The labels of references."""
    constant = [constant_prediction(references)] * len(references)
    return [outcomes.number(of_text) for of_text in counted(constant, references)]


def constant_prediction(references: Sequence[str]) -> str:
    """Of the references of middle length, the one with the best chrF if it is predicted for every source."""
    ordered = sorted(references, key=lambda text: (len(text), text))
    start = max(0, (len(ordered) - TRIED) // 2)
    places = np.linspace(0, len(references) - 1, min(COMPARED, len(references))).astype(int)
    compared = [references[place] for place in places]

    def chrf(text: str) -> float:
        counts = np.array(counted([text] * len(compared), compared), dtype=float).sum(axis=0)
        return float(of_sums("chrf", counts))

    return max(ordered[start : start + TRIED], key=chrf)
