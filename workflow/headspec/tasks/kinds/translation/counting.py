"""Counts of texts by sacrebleu, for predictions and labels; statistics do not need this module."""

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.kinds.translation.classes import BY_CHARACTER, TOKENIZERS
from headspec.tasks.metrics import score
from headspec.tasks.tokens import SIGNATURES

#: number of references tried as constant prediction, and of sentences on which they are compared
TRIED, COMPARED = 10, 200


@cache
def _sacrebleu(language: str | None) -> tuple[Any, Any]:
    """Return BLEU and chrF, with tokens for a language without spaces between words if given."""
    from sacrebleu.metrics import BLEU as Bleu
    from sacrebleu.metrics import CHRF as Chrf  # slow to import

    try:
        bleu = Bleu(tokenize=TOKENIZERS.get(language, BY_CHARACTER)) if language else Bleu()
    except RuntimeError:  # MeCab is not installed
        bleu = Bleu(tokenize=BY_CHARACTER)
    for name, metric in {
        f"bleu ({language})" if language else "bleu": bleu,
        "chrf": (chrf := Chrf()),
    }.items():
        metric._extract_corpus_statistics(["text"], [["text"]])  # a signature has the number of references
        SIGNATURES[name] = str(metric.get_signature())
    return bleu, chrf


def counted(
    texts: Sequence[str], references: Sequence[str], language: str | None = None
) -> list[tuple[int, ...]]:
    """Return the counts of each text; `language` has no spaces (`headspec.characters.unspaced`)."""
    bleu_counts, chrf_counts = (
        # the summands of corpus scores have no public name
        metric._extract_corpus_statistics(list(texts), [list(references)])
        for metric in _sacrebleu(language)
    )
    same = [int(text.strip() == reference.strip()) for text, reference in zip(texts, references, strict=True)]
    return [(*a, *b, c) for a, b, c in zip(bleu_counts, chrf_counts, same, strict=True)]


def labels(references: Sequence[str], language: str | None = None) -> NDArray[np.float64]:
    """Return labels (n, counts) of references: the counts of a constant prediction."""
    constant = [constant_prediction(references, language)] * len(references)
    return np.array(counted(constant, references, language), dtype=float)


def constant_prediction(references: Sequence[str], language: str | None = None) -> str:
    """Return the reference of middle length that has the best chrF as prediction for all sources."""
    ordered = sorted(references, key=lambda text: (len(text), text))
    start = max(0, (len(ordered) - TRIED) // 2)
    places = np.linspace(0, len(references) - 1, min(COMPARED, len(references))).astype(int)
    compared = [references[place] for place in places]

    def chrf(text: str) -> float:
        counts = np.array(counted([text] * len(compared), compared, language), dtype=float)
        return score("chrf", counts, counts)

    return max(ordered[start : start + TRIED], key=chrf)
