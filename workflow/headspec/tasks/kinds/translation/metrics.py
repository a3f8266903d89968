"""BLEU, chrF and exact match of translations, counted by sacrebleu."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache, partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from headspec.tasks.kinds.translation.kind import BY_CHARACTER, TOKENIZERS
from headspec.tasks.metrics import Metric, mean, ratio, score, taken

Floats = NDArray[np.float64]

#: orders of n-grams
WORDS, CHARACTERS = 4, 6
#: places of counts: lengths of prediction and reference, matches and n-grams of words; for every order of
#: characters, n-grams of the prediction, of the reference, and matches; whether the texts are equal
BLEU = slice(0, 2 + 2 * WORDS)
CHRF = slice(BLEU.stop, BLEU.stop + 3 * CHARACTERS)
SAME = slice(CHRF.stop, CHRF.stop + 1)


def _bleu(_: Floats, sums: Floats) -> Floats:
    """Return BLEU, smoothed exponentially (Chen and Cherry 2014): 2^-k for the k-th order without matches."""
    length, reference = sums[..., 0], sums[..., 1]
    right, total = sums[..., 2 : 2 + WORDS], sums[..., 2 + WORDS :]
    none = (right == 0) & (total > 0)
    smoothed = np.where(none, 0.5 ** np.cumsum(none, axis=-1), right)
    defined = (right.any(axis=-1)) & (total > 0).all(axis=-1) & (length > 0)
    precision = np.divide(smoothed, total, out=np.ones_like(smoothed), where=defined[..., None])
    longer = np.divide(reference, length, out=np.ones_like(length), where=length > 0)
    bleu: Floats = defined * np.exp(np.minimum(0, 1 - longer) + np.log(precision).mean(axis=-1))
    return bleu


def _chrf(_: Floats, sums: Floats) -> Floats:
    """Return F2 of mean precision and recall over orders that both texts have."""
    by_order = sums.reshape(*sums.shape[:-1], CHARACTERS, 3)
    predicted, reference, right = np.moveaxis(by_order, -1, 0)
    both = (predicted > 0) & (reference > 0)
    orders = np.maximum(both.sum(axis=-1), 1)
    precision, recall = (ratio(right * both, every).sum(axis=-1) / orders for every in (predicted, reference))
    return ratio(5 * precision * recall, 4 * precision + recall)


def _constant(label: Floats) -> Floats:
    return label


METRICS = {
    "chrf": Metric("chrF", partial(taken, CHRF), _chrf, _constant, several=True),
    "bleu": Metric("BLEU", partial(taken, BLEU), _bleu, _constant, several=True),
    "exact_match": Metric("exact match", partial(taken, SAME), mean, _constant, several=True),
}


#: number of references tried as constant prediction, and of sentences on which they are compared
TRIED, COMPARED = 10, 200


@cache
def _sacrebleu(language: str | None) -> tuple[Any, Any]:
    """Return sacrebleu's BLEU and chrF; BLEU has tokens for a `language` without spaces, if given."""
    from sacrebleu.metrics import BLEU as Bleu
    from sacrebleu.metrics import CHRF as Chrf  # slow to import

    try:
        bleu = Bleu(tokenize=TOKENIZERS.get(language, BY_CHARACTER)) if language else Bleu()
    except RuntimeError:  # MeCab is not installed
        bleu = Bleu(tokenize=BY_CHARACTER)
    return bleu, Chrf()


def signatures(language: str | None = None) -> dict[str, str]:
    """Return sacrebleu's signatures of BLEU and chrF, with its version, by metric."""
    names = (f"bleu ({language})" if language else "bleu", "chrf")
    counted([""], [""], language)  # a signature has the number of references
    return {
        name: str(metric.get_signature()) for name, metric in zip(names, _sacrebleu(language), strict=True)
    }


def counted(
    texts: Sequence[str], references: Sequence[str], language: str | None = None
) -> list[tuple[int, ...]]:
    """Return the counts of each text; a `language` is one without spaces, by `characters.unspaced`."""
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
    """Return the reference with the best chrF as prediction for all sources.

    It is one of the `TRIED` references of middle length, compared on at most `COMPARED` sources.
    """
    ordered = sorted(references, key=lambda text: (len(text), text))
    start = max(0, (len(ordered) - TRIED) // 2)
    places = np.linspace(0, len(references) - 1, min(COMPARED, len(references))).astype(int)
    compared = [references[place] for place in places]

    def chrf(text: str) -> float:
        counts = np.array(counted([text] * len(compared), compared, language), dtype=float)
        return score("chrf", counts, counts)

    return max(ordered[start : start + TRIED], key=chrf)
