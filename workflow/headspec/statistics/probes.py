"""What single heads encode about labels, and how training changes it.

The best head for a label is chosen on one half of the sentences and scored on the other, and vice versa, so
that its accuracy is not a maximum of noise. So is the best head of the control, since heads differ in how
often a probe predicts a label. Intervals are over seeds and sentences, those of selectivity also over the
random labels.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from headspec.seeds import derive
from headspec.statistics.intervals import (
    FEWEST,
    TESTED,
    corrected,
    over_seeds_and_examples,
    p_over_seeds_and_examples,
)
from headspec.statistics.resampling import p_value
from headspec.tables import FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

PROBES = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "label": TEXT, "heads": TEXT,
     "accuracy": FLOAT, "accuracy_low": FLOAT, "accuracy_high": FLOAT, "control": FLOAT, "selectivity": FLOAT,
     "selectivity_low": FLOAT, "selectivity_high": FLOAT, "n": INT, "n_seeds": INT},
    keys=6,
    about={
        "mixture": "`none` for the encoder before training",
        "method": "of training; `pretrained`; or `random`, weights that each seed draws",
        "label": "null for all labels together, where `best` chooses a head for each label",
        "heads": "`best` on the other half of the sentences, or `mean` of all",
        "accuracy": "share of units that the heads get right, mean over seeds",
        "control": "accuracy of the [control](words.md#probes), mean over random labellings; null if a "
            "label has no units in any",
        "selectivity": "accuracy minus control",
    },
)  # fmt: skip
PROBE_CHANGES = Schema(
    {"model": TEXT, "task": TEXT, "label": TEXT, "heads": TEXT, "before": TEXT, "mixture": TEXT,
     "method": TEXT, "change": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT}
    | TESTED
    | {"n": INT, "n_seeds": INT},
    keys=7,
    about={
        "label": "null for all labels together, where `best` chooses a head for each label",
        "heads": "`best` before training on the other half of the sentences, or `mean`",
        "before": "`pretrained`, `random`, `single`, or `tuned` on the same mixture",
        "change": "accuracy minus `before`, mean over seeds",
    },
)  # fmt: skip
#: number of random signs of folds in a test: minimum, per row of its family, and maximum
FLIPS = 2**14, 200, 2**18
#: which heads: the best for each label, or all of them
BEST, MEAN = "best", "mean"


class Counts(NamedTuple):
    """Numbers of units that probes get right; a probe is a head, or a head in one direction."""

    right: Floats  # (labels, folds, probes)
    n: Floats  # (labels, folds)

    def chosen_right(self, heads: str, by: Counts) -> Floats:
        """Return right units (labels, folds): the `MEAN` over all probes, or those of the `BEST` for a label.

        The best probe by the counts `by` is chosen on the other half of the folds. All labels together, which
        come first, are the sum of the others, each with its own best probe.
        """
        if heads == MEAN:
            means: Floats = self.right.mean(axis=2)
            return means
        half = np.arange(self.n.shape[1]) % 2
        right = np.empty_like(self.n)
        for side in (0, 1):
            best = by.right[:, half != side].sum(axis=1).argmax(axis=1)[:, None, None]
            here = half == side
            right[:, here] = np.take_along_axis(self.right[:, here], best, axis=2)[..., 0]
        right[0] = right[1:].sum(axis=0)
        return right


class Probed(NamedTuple):
    """Counts from one table 'probed'."""

    found: Counts
    controls: list[Counts]  # one for each random labelling
    labels: list[str | None]  # the first is None, all labels

    @classmethod
    def from_table(cls, table: pd.DataFrame) -> Probed:
        """Read rows of the schema `PROBED`."""
        label, labels = pd.factorize(table["label"], sort=True)
        direction = pd.factorize(table["direction"], sort=True)[0]  # -1 where heads have none
        places = np.stack([direction, table["layer"], table["head"]])
        probe = np.unique(places, axis=1, return_inverse=True)[1].reshape(-1)
        at = label, table["fold"].to_numpy(), probe
        shape = len(labels), table["fold"].max() + 1, probe.max() + 1

        def counts(right: Any, n: Any) -> Counts:
            counted = np.zeros((2, *shape))
            counted[0][at], counted[1][at] = right, n
            right, n = np.concatenate([counted.sum(axis=1, keepdims=True), counted], axis=1)
            return Counts(right, n.max(axis=2))

        lists = (np.array(table[name].tolist()).T for name in ("control", "n_control"))
        controls = zip(*lists, strict=True)
        return cls(
            counts(table["right"], table["n"]), [counts(*control) for control in controls], [None, *labels]
        )


UNTRAINED, SINGLE, TUNED = ("pretrained", "random"), "single", "tuned"


def _weights(folds: int, seeds: int, resamples: int, confidence: float, seed: int) -> Floats:
    """Return bootstrap weights (resamples, folds) of folds, widened to the unbiased variance.

    95 % percentile intervals of one or two seeds would cover 89 %; they are widened further, by the ratio of
    the quantiles of Student's t and the normal distribution.
    """
    rng = np.random.default_rng(derive(seed, "folds of probes"))
    drawn = rng.multinomial(folds, np.full(folds, 1 / folds), size=resamples)
    tail = (1 + confidence) / 2
    wider = stdtrit(folds - 1, tail) / ndtri(tail) if seeds < FEWEST else 1.0
    widened: Floats = 1 + (drawn - 1) * np.sqrt(folds / (folds - 1)) * wider
    return widened


def _rates(sums: Sequence[Floats], counts: Sequence[Counts], weights: Floats) -> tuple[Floats, Floats]:
    """Return shares (runs, labels) of units, and those on resampled folds (resamples, runs, labels).

    `sums` are (labels, folds) of each run; shares are 0 without units.
    """
    pairs = [(right, each.n) for right, each in zip(sums, counts, strict=True)]
    rates = [_share(right.sum(axis=1), n.sum(axis=1)) for right, n in pairs]
    resampled = [_share(weights @ right.T, weights @ n.T) for right, n in pairs]
    return np.stack(rates), np.stack(resampled, axis=1)


def _share(part: Floats, whole: Floats) -> Floats:
    return np.divide(part, whole, out=np.zeros_like(part), where=whole > 0)


def probes(
    groups: Mapping[tuple[str, str, str, str], Sequence[pd.DataFrame]], resamples: int, confidence: float,
    seed: int,
) -> pd.DataFrame:  # fmt: skip
    """Return the table `probes`, without labels that have no units.

    `groups` have the tables 'probed' of the runs of all seeds, by model, mixture, method and task.
    """
    rows = []
    for group, members in groups.items():
        runs = [*map(Probed.from_table, members)]
        weights = _weights(runs[0].found.n.shape[1], len(runs), resamples, confidence, seed)
        names = dict(zip(("model", "mixture", "method", "task"), group, strict=True))
        rows += [
            pd.DataFrame(names | {"heads": heads, **_probe_columns(runs, heads, weights, confidence)})
            for heads in (BEST, MEAN)
        ]
    table = pd.concat(rows, ignore_index=True)
    return table[table["n"] > 0].reset_index(drop=True)[list(PROBES.columns)]


def _probe_columns(runs: list[Probed], heads: str, weights: Floats, confidence: float) -> dict[str, object]:
    """Return columns of `PROBES` for all labels, from the runs of all seeds."""

    def rates(counts: Sequence[Counts]) -> tuple[Floats, Floats]:
        """Return rates (counts, labels), and those on resampled folds (resamples, counts, labels)."""
        return _rates([each.chosen_right(heads, each) for each in counts], counts, weights)

    values, sampled = rates([run.found for run in runs])
    controls = [rates(run.controls) for run in runs]
    units = np.stack([control.n.sum(axis=1) > 0 for control in runs[0].controls])  # (labellings, labels)
    control = np.stack([_mean(rate, units) for rate, _ in controls])
    difference = values - control
    resampled = sampled - np.stack([_mean(rate, units) for _, rate in controls], axis=1)
    accuracy = over_seeds_and_examples(values, sampled, confidence)
    selectivity = over_seeds_and_examples(difference, resampled, confidence)
    gained = difference.mean(axis=0)
    reach = _reach(np.mean([rate for rate, _ in controls], axis=0), units, confidence)
    return {
        "label": runs[0].labels, "accuracy": values.mean(axis=0),
        "accuracy_low": accuracy.low.clip(0, 1), "accuracy_high": accuracy.high.clip(0, 1),
        "control": control.mean(axis=0), "selectivity": gained,
        "selectivity_low": (gained - np.hypot(gained - selectivity.low, reach)).clip(-1, 1),
        "selectivity_high": (gained + np.hypot(selectivity.high - gained, reach)).clip(-1, 1),
        "n": runs[0].found.n.sum(axis=1).astype(int), "n_seeds": len(runs),
    }  # fmt: skip


def _mean(rates: Floats, units: NDArray[np.bool_]) -> Floats:
    """Return `rates` (..., labellings, labels) averaged over labellings with `units` of a label; else nan."""
    masked = np.ma.array(rates, mask=np.broadcast_to(~units, rates.shape))
    mean: Floats = masked.mean(axis=-2).filled(np.nan)
    return mean


def _reach(rates: Floats, units: NDArray[np.bool_], confidence: float) -> Floats:
    """Return the distance (labels,) of one more labelling from the mean of these, by Student's t.

    It is 0 with a single labelling, and nan for a label with units in fewer than two of several. Its square
    is added to the squared reach over seeds and sentences (Zou and Donner 2008).
    """
    if len(rates) == 1:
        return np.zeros(rates.shape[1])
    n = np.maximum(units.sum(axis=0), 2)
    spread = np.ma.array(rates, mask=~units).std(axis=0, ddof=1).filled(np.nan)
    reach: Floats = stdtrit(n - 1, (1 + confidence) / 2) * spread * np.sqrt(1 + 1 / n)
    return reach


def changes(
    groups: Mapping[tuple[str, str, str, str], Sequence[pd.DataFrame]], resamples: int, confidence: float,
    seed: int,
) -> pd.DataFrame:  # fmt: skip
    """Return the table `probe_changes`: runs after training, minus those before (see `_compared`).

    `groups` are those of `probes`; runs of two groups are paired in order, and a single run before training
    is compared with all runs after. p_value is from swaps of before and after in whole folds; p_seeds is at
    least that, since a few units do not show the variance over sentences. Both are corrected separately for
    rows of all labels and of single labels, over the comparisons of a model, task and choice of heads.
    """
    by_task: dict[tuple[str, str], dict[tuple[str, str], list[Probed]]] = {}
    for (model, mixture, method, task), members in groups.items():
        by_task.setdefault((model, task), {})[mixture, method] = [*map(Probed.from_table, members)]
    frames = []
    for (model, task), runs in by_task.items():
        start = next(group for method in UNTRAINED for group in runs if group[1] == method)
        untrained = runs[start]
        most_seeds, folds = max(map(len, runs.values())), untrained[0].found.n.shape[1]
        weights = _weights(folds, most_seeds, resamples, confidence, seed)
        compared = [*_compared(runs, task, start)]
        rng = np.random.default_rng(derive(seed, "permuted folds of probes"))
        fewest, by_row, most = FLIPS
        draws = min(max(fewest, by_row * len(compared) * len(untrained[0].labels)), most)
        flips = rng.choice([-1.0, 1.0], (draws, folds))
        for heads in (BEST, MEAN):
            rows = []
            for name, mixture, method in compared:
                pair = runs[name], runs[mixture, method]
                change = _change(*pair, untrained, heads, weights, flips, confidence)
                rows.append(change.assign(before=name[1], mixture=mixture, method=method))
            found = pd.concat(rows, ignore_index=True)
            found = corrected(found, found["label"].isna())
            frames.append(found.assign(model=model, task=task, heads=heads))
    return pd.concat(frames, ignore_index=True)[list(PROBE_CHANGES.columns)]


def _compared(
    groups: Collection[tuple[str, str]], task: str, start: tuple[str, str]
) -> Iterator[tuple[tuple[str, str], str, str]]:
    """Yield the group before, and the mixture and method after, of all comparisons for a task.

    All training is compared with the untrained encoder, training on mixtures also with that on the task
    alone, and its variants also with plain training on the same mixture.
    """
    for mixture, method in groups:
        if method in UNTRAINED:
            continue
        yield start, mixture, method
        if method != SINGLE and (task, SINGLE) in groups:
            yield (task, SINGLE), mixture, method
        if method not in (SINGLE, TUNED) and (mixture, TUNED) in groups:
            yield (mixture, TUNED), mixture, method


def _change(
    before: list[Probed], after: list[Probed], untrained: list[Probed], heads: str, weights: Floats,
    flips: Floats, confidence: float,
) -> pd.DataFrame:  # fmt: skip
    """Return rows of `PROBE_CHANGES` for the labels with units, with heads chosen by the `untrained` runs."""
    before, untrained = (each * len(after) if len(each) == 1 else each for each in (before, untrained))
    differences = [
        b.found.chosen_right(heads, first.found) - a.found.chosen_right(heads, first.found)
        for a, b, first in zip(before, after, untrained, strict=True)
    ]
    estimates, bootstrap = _rates(differences, [run.found for run in after], weights)
    bounds = over_seeds_and_examples(estimates, bootstrap, confidence)
    changed = np.sum(differences, axis=0)  # (labels, folds)
    permuted = p_value(changed.sum(axis=1), flips @ changed.T)
    p_seeds = np.maximum(p_over_seeds_and_examples(estimates, bootstrap), permuted)
    n = after[0].found.n.sum(axis=1).astype(int)
    frame = pd.DataFrame(
        {"label": after[0].labels, "change": estimates.mean(axis=0), "ci_low": bounds.low.clip(-1, 1),
         "ci_high": bounds.high.clip(-1, 1), "p_value": permuted, "p_seeds": p_seeds,
         "n": n, "n_seeds": len(after)}
    )  # fmt: skip
    with_units: pd.DataFrame = frame[n > 0]
    return with_units
