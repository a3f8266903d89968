"""How often intervals of curves miss: ``python -m support.reference.curve_rates docs/code/notebook.md``.

Heads matter by margins, normal over examples, sets of heads and both: an example is right with a margin above
0, and its loss is log(1 + exp(-2 * margin)), whose distribution is skewed. Unpruned models have margins that
are larger on average, models without heads those of chance.
"""

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.special import ndtr, roots_hermitenorm

from headspec.config.reference import between
from headspec.heads.any_model.curves.faithfulness import faithfulness
from headspec.heads.any_model.curves.intervals import of_difference, of_mean

BEGIN, END = "<!-- rates: written by python -m support.reference.curve_rates -->", "<!-- end of rates -->"
#: numbers of examples and of random sets, mean margins, and standard deviations over sets and over both
EXAMPLES, DRAWS, MARGINS = (20, 60, 200), (5, 20), (0.0, 1.0, 2.0, 2.8)
OF_SETS, OF_BOTH = (0.0, 0.3, 1.0), 0.5
#: how much larger the mean margin is without closed heads
UNPRUNED = 0.5
RUNS = 500
MEASURES = ("accuracy", "loss")
COLUMNS = ("a set", "random sets", "difference", "faithfulness")


def measured(margins: np.ndarray, measure: str) -> np.ndarray:
    """Values of margins, (sets, n)."""
    return (margins > 0).astype(float) if measure == "accuracy" else np.logaddexp(0, -2 * margins)


def truth(mean: float, deviation: float, measure: str) -> float:
    """The mean of a measure over normal margins."""
    if measure == "accuracy":
        return float(ndtr(mean / deviation))
    places, weights = roots_hermitenorm(60)
    return float(weights @ measured(mean + deviation * places, measure) / weights.sum())


def missed(measure: str, n: int, draws: int, margin: float, of_sets: float, runs: int = RUNS) -> np.ndarray:
    """Shares of runs, (4,), whose interval of a set, random sets, their difference, or faithfulness misses.

    Faithfulness is that of the set.
    """
    seed = [n, draws, int(10 * margin), int(10 * of_sets)]
    rng, others = np.random.default_rng(seed), np.random.default_rng([*seed, 1])
    bounds = (0.0, 1.0) if measure == "accuracy" else None
    of_examples = np.hypot(1, OF_BOTH)
    misses = np.zeros(len(COLUMNS))
    ends = np.array([truth(each, of_examples, measure) for each in (margin + UNPRUNED, 0)])
    for _ in range(runs):
        sets = of_sets * rng.normal(size=(1 + draws, 1))
        example = rng.normal(size=n)
        margins = margin + example + sets + OF_BOTH * rng.normal(size=(1 + draws, n))
        one, *_ = values = measured(margins, measure)
        unpruned = measured(margin + UNPRUNED + example + OF_BOTH * others.normal(size=n), measure)
        closed = measured(of_examples * others.normal(size=n), measure)
        of_set = truth(margin + sets[0, 0], of_examples, measure)
        share, *interval = faithfulness(values[:1], unpruned, closed, 0.95, bounds)
        for i, (found, expected) in enumerate((
            (of_mean(values[:1], 0.95, bounds), of_set),
            (of_mean(values[1:], 0.95, bounds), truth(margin, np.hypot(of_examples, of_sets), measure)),
            (of_difference(one, values[1:], 0.95, bounds), 0.0),
            ((-np.inf, np.inf) if np.isnan(share) else interval, (of_set - ends[1]) / (ends[0] - ends[1])),
        )):  # fmt: skip
            misses[i] += not found[0] <= expected <= found[1]
    return misses / runs


def lines(
    columns: Sequence[str], missed: Callable[..., Sequence[float]], situations: Iterable[Sequence[Any]]
) -> Iterator[str]:
    """Yield the lines of a table: mean and largest rate over all situations, in per cent."""
    heads, each = [f"{column}, {measure}" for measure in MEASURES for column in columns], [*situations]
    yield f"| examples | draws | {' | '.join(heads)} |"
    yield "|---" * (2 + len(heads)) + "|"
    for n, draws in itertools.product(EXAMPLES, DRAWS):
        cells = []
        for measure in MEASURES:
            rates = np.vstack([missed(measure, n, draws, *situation) for situation in each])
            means, largest = 100 * rates.mean(axis=0), 100 * rates.max(axis=0)
            cells += [f"{mean:.0f} ({most:.0f})" for mean, most in zip(means, largest, strict=True)]
        yield f"| {n} | {draws} | {' | '.join(cells)} |"


def write(found: Iterable[str], begin: str, end: str, pages: Sequence[str]) -> None:
    """Print a table, and write it between markers of pages."""
    table = "\n".join(found)
    print(table)
    for page in map(Path, pages):
        page.write_text(between(page.read_text(encoding="utf-8"), begin, end, f"\n{table}\n"), "utf-8")


if __name__ == "__main__":
    write(lines(COLUMNS, missed, itertools.product(MARGINS, OF_SETS)), BEGIN, END, sys.argv[1:])
