"""How often those of `recovery` miss: ``python -m support.reference.recovery_rates docs/code/notebook.md``.

As in `curve_rates`, an example is right with a margin above 0. Each restored head of a closed list adds to
the margins: all as much (`alike`), or one nine tenths of what all add (`one`). Heads are ranked by chance, so
that the first ones are no better than random ones.
"""

import itertools
import sys

import numpy as np

from headspec.config.values import SAME_LAYERS
from headspec.heads.any_model.curves import recovery
from headspec.heads.any_model.curves.curve import RANDOM, TOP, table
from support.reference.curve_rates import lines, measured, truth, write

BEGIN, END = (
    "<!-- recovered: written by python -m support.reference.recovery_rates -->",
    "<!-- end of recovered -->",
)
#: numbers of heads in the list, what these add, and mean margins of all
LISTED, ADD, MARGINS = (4, 8, 24), ("alike", "one"), (1.0, 2.0)
#: what all heads add, and the standard deviation over examples of what a head adds, as a share of it
ADDED, OF_BOTH = 2.0, 0.5
RUNS = 200
COLUMNS = ("recovered, first heads", "recovered, random heads", "difference", "difference_layers")


def effects(kind: str, heads: int) -> np.ndarray:
    """What each of the heads adds to the margin, (heads,), `ADDED` together."""
    shares = np.ones(heads) if kind == "alike" else np.append(9.0 * (heads - 1), np.ones(heads - 1))
    return ADDED * shares / shares.sum()


def missed(
    measure: str, n: int, draws: int, heads: int, kind: str, margin: float, runs: int = RUNS
) -> np.ndarray:
    """Shares of intervals that miss, (numbers of restored heads, `COLUMNS`)."""
    rng = np.random.default_rng([n, draws, heads, ADD.index(kind), int(10 * margin)])
    bounds = (0.0, 1.0) if measure == "accuracy" else None
    added = effects(kind, heads)

    def expected(restored: np.ndarray) -> float:
        of_heads = added[restored]
        return truth(
            margin - ADDED + of_heads.sum(), np.hypot(1, OF_BOTH * np.linalg.norm(of_heads)), measure
        )

    def of_random(k: int) -> float:
        """The mean over all sets of k heads, which have the first one or not."""
        with_first, without = (expected((np.arange(heads) - place) % heads < k) for place in (0, 1))
        return with_first * k / heads + without * (1 - k / heads)

    closed, unpruned = expected(np.zeros(heads, bool)), expected(np.ones(heads, bool))
    against = {RANDOM: "difference", SAME_LAYERS: "difference_layers"}
    misses: list[list[list[bool]]] = []
    for _ in range(runs):
        ranks = rng.permutation(heads).reshape(2, -1).astype(float)
        counts = recovery._counts(None, heads)
        sets = [*recovery._sets(ranks, counts, draws, int(rng.integers(2**31)))]
        restored = np.stack([each.heads.ravel() for each in sets])
        by_head = added * (1 + OF_BOTH * rng.normal(size=(n, heads)))
        values = measured(margin - ADDED + rng.normal(size=n) + restored @ by_head.T, measure)
        rows = table(sets, values, 0.95, bounds, -1, 0, against=against).set_index(["heads", "order"])
        of_counts = []
        for k in counts:
            (top,) = (each.heads.ravel() for each in sets if each.order == TOP and each.heads.sum() == k)
            found = []
            for order, value in ((TOP, expected(top)), (RANDOM, of_random(k))):
                row, share = rows.loc[k, order], (value - closed) / (unpruned - closed)
                known = not np.isnan(row["faithfulness"])
                found.append(known and not row["faithfulness_low"] <= share <= row["faithfulness_high"])
            row = rows.loc[k, TOP]
            found += [not row[f"{name}_low"] <= 0 <= row[f"{name}_high"] for name in against.values()]
            of_counts.append(found)
        misses.append(of_counts)
    return np.mean(misses, axis=0)


if __name__ == "__main__":
    write(lines(COLUMNS, missed, itertools.product(LISTED, ADD, MARGINS)), BEGIN, END, sys.argv[1:])
