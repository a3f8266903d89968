"""What single heads know of labels, and whether training changes it.

The best head of a label is chosen on one half of the sentences and scored on the other, and the reverse, so
that its accuracy is no maximum of noise. Intervals are over seeds and sentences.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import ndtri, stdtrit

from headspec.seeds import derive
from headspec.statistics.intervals import FEWEST, over_seeds_and_examples, p_over_seeds_and_examples
from headspec.statistics.resampling import holm
from headspec.tables import FLOAT, INT, TEXT, Schema

Floats = NDArray[np.float64]

PROBES = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "task": TEXT, "label": TEXT, "heads": TEXT,
     "accuracy": FLOAT, "accuracy_low": FLOAT, "accuracy_high": FLOAT, "control": FLOAT, "selectivity": FLOAT,
     "selectivity_low": FLOAT, "selectivity_high": FLOAT, "n": INT, "n_seeds": INT},
    keys=6,
)  # fmt: skip
"""Table `probes`: a row for each group of runs, task, label, and choice of heads.
tables/probes.parquet

mixture: `none` for the encoder before training
method: way of training; `pretrained`; or `random`, weights that each seed draws
label: null for all, of which `best` takes for each label its own head
heads: `best`, the head that is best on the other half of the sentences, or `mean`, all heads
accuracy: share of units that the heads get right, mean over seeds
control: accuracy of the [control](words.md#probes)
selectivity: accuracy less control (Hewitt and Liang 2019)
"""
PROBE_CHANGES = Schema(
    {"model": TEXT, "task": TEXT, "label": TEXT, "heads": TEXT, "before": TEXT, "mixture": TEXT,
     "method": TEXT, "change": FLOAT, "ci_low": FLOAT, "ci_high": FLOAT, "p_value": FLOAT, "p_holm": FLOAT,
     "n": INT, "n_seeds": INT},
    keys=7,
)  # fmt: skip
"""Table `probe_changes`: a row for each task, label, choice of heads, group of runs, and comparison.
tables/probe_changes.parquet

label: null for all, of which `best` takes for each label its own head
heads: `best`, the head that is best before training, on the other half of the sentences, or `mean`
before: `pretrained`, `random`, `single`, or `tuned` on the same mixture
change: accuracy of the runs less that of `before`, mean over seeds
p_value: null for fewer than three seeds
"""
PRETRAINED, RANDOM, SINGLE, TUNED = "pretrained", "random", "single", "tuned"
BEST, MEAN = "best", "mean"


class Probed(NamedTuple):
    """Counts of the units of one table 'probed'.

    Attributes
    ----------
    right, control : (labels, folds, probes); a probe is a head, or a head in one direction
    n : (labels, folds)
    labels : their names; the first is None, all labels
    """

    right: Floats
    control: Floats
    n: Floats
    labels: list[str | None]

    @classmethod
    def of(cls, table: pd.DataFrame) -> Probed:
        """From rows of the schema `PROBED`."""
        of_label, labels = pd.factorize(table["label"], sort=True)
        direction = pd.factorize(table["direction"], sort=True)[0]  # -1 where heads have none
        of_probe = np.stack([direction, table["layer"], table["head"]])
        probe = np.unique(of_probe, axis=1, return_inverse=True)[1].reshape(-1)
        at = of_label, table["fold"].to_numpy(), probe
        found = np.zeros((3, len(labels), table["fold"].max() + 1, probe.max() + 1))
        for values, name in zip(found, ("right", "control", "n"), strict=True):
            values[at] = table[name]
        right, control, n = np.concatenate([found.sum(axis=1, keepdims=True), found], axis=1)
        return cls(right, control, n[..., 0], [None, *labels])

    def chosen(self, by: Probed | None = None) -> tuple[Floats, Floats]:
        """Counts of the best probe of every label, chosen on the other half of the folds; (labels, folds).

        All labels together are the sum, each with its own best probe.

        Parameters
        ----------
        by : counts that choose; by default the same
        """
        by = self if by is None else by
        half = np.arange(self.n.shape[1]) % 2
        right, control = np.empty_like(self.n), np.empty_like(self.n)
        for side in (0, 1):
            best = by.right[:, half != side].sum(axis=1).argmax(axis=1)[:, None, None]
            of_side = half == side
            right[:, of_side] = np.take_along_axis(self.right[:, of_side], best, axis=2)[..., 0]
            control[:, of_side] = np.take_along_axis(self.control[:, of_side], best, axis=2)[..., 0]
        for counts in (right, control):
            counts[0] = counts[1:].sum(axis=0)
        return right, control

    def heads(self, heads: str, by: Probed | None = None) -> tuple[Floats, Floats]:
        """Counts of right units and of the control's, (labels, folds), of `BEST` or `MEAN` heads."""
        if heads == BEST:
            return self.chosen(by)
        return self.right.mean(axis=2), self.control.mean(axis=2)


def _weights(folds: int, seeds: int, resamples: int, confidence: float, seed: int) -> Floats:
    """How often each fold is drawn, (resamples, folds), spread as a sample's variance is.

    Percentiles, as one or two seeds have them, are spread as Student's t of so few folds: as they are,
    intervals of 95 % cover 89 %.
    """
    rng = np.random.default_rng(derive(seed, "folds of probes"))
    drawn = rng.multinomial(folds, np.full(folds, 1 / folds), size=resamples)
    tail = (1 + confidence) / 2
    wider = stdtrit(folds - 1, tail) / ndtri(tail) if seeds < FEWEST else 1.0
    return 1 + (drawn - 1) * np.sqrt(folds / (folds - 1)) * wider


def _rates(sums: Floats, n: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Shares (labels,), and of resampled folds (resamples, labels); 0 without units."""
    total, resampled = n.sum(axis=1), weights @ n.T
    rate = np.divide(sums.sum(axis=1), total, out=np.zeros(len(n)), where=total > 0)
    numerator = weights @ sums.T
    return rate, np.divide(numerator, resampled, out=np.zeros_like(numerator), where=resampled > 0)


def probes(
    groups: Mapping[tuple[str, str, str, str], Sequence[pd.DataFrame]], resamples: int, confidence: float,
    seed: int,
) -> pd.DataFrame:  # fmt: skip
    """Accuracy and selectivity of heads.

    Parameters
    ----------
    groups : (model, mixture, method, task): tables 'probed' of the runs of all seeds

    Returns
    -------
    table of schema `PROBES`
    """
    rows = []
    for group, found in groups.items():
        runs = [Probed.of(table) for table in found]
        weights = _weights(runs[0].n.shape[1], len(runs), resamples, confidence, seed)
        for heads in (BEST, MEAN):
            counts = [run.heads(heads) for run in runs]
            right, of_control, gained = (
                list(
                    zip(
                        *(_rates(sums, run.n, weights) for sums, run in zip(each, runs, strict=True)),
                        strict=True,
                    )
                )
                for each in (
                    [right for right, _ in counts],
                    [control for _, control in counts],
                    [right - control for right, control in counts],
                )
            )
            accuracy = over_seeds_and_examples(np.stack(right[0]), np.stack(right[1], axis=1), confidence)
            selectivity = over_seeds_and_examples(
                np.stack(gained[0]), np.stack(gained[1], axis=1), confidence
            )
            columns: dict[str, Any] = {
                "label": runs[0].labels, "heads": heads,
                "accuracy": np.mean(right[0], axis=0),
                "accuracy_low": accuracy.low.clip(0, 1), "accuracy_high": accuracy.high.clip(0, 1),
                "control": np.mean(of_control[0], axis=0), "selectivity": np.mean(gained[0], axis=0),
                "selectivity_low": selectivity.low.clip(-1, 1),
                "selectivity_high": selectivity.high.clip(-1, 1),
                "n": runs[0].n.sum(axis=1).astype(int), "n_seeds": len(runs),
            }  # fmt: skip
            names = dict(zip(("model", "mixture", "method", "task"), group, strict=True))
            rows.append(pd.DataFrame(names | columns))
    return pd.concat(rows, ignore_index=True)[list(PROBES.columns)]


def changes(
    groups: Mapping[tuple[str, str, str, str], Sequence[pd.DataFrame]], resamples: int, confidence: float,
    seed: int,
) -> pd.DataFrame:  # fmt: skip
    """How accuracy changes from the untrained encoder to models of one task, and from these to others.

    Parameters
    ----------
    groups : as for `probes`; runs of two groups are paired by their place, and one alone stands for all

    Returns
    -------
    table of schema `PROBE_CHANGES`
    """
    by_task: dict[tuple[str, str], dict[tuple[str, str], list[Probed]]] = {}
    for (model, mixture, method, task), found in groups.items():
        by_task.setdefault((model, task), {})[mixture, method] = [Probed.of(table) for table in found]
    frames = []
    for (model, task), of_task in by_task.items():
        of_method = {method: runs for (_, method), runs in of_task.items() if method in (PRETRAINED, RANDOM)}
        start = PRETRAINED if PRETRAINED in of_method else RANDOM
        untrained = of_method[start]
        seeds = max(map(len, of_task.values()))
        weights = _weights(untrained[0].n.shape[1], seeds, resamples, confidence, seed)
        for heads in (BEST, MEAN):
            rows = []
            for (mixture, method), after in of_task.items():
                if method in (PRETRAINED, RANDOM):
                    continue
                befores = {start: untrained}
                if method != SINGLE and (task, SINGLE) in of_task:
                    befores[SINGLE] = of_task[task, SINGLE]
                if method not in (SINGLE, TUNED) and (mixture, TUNED) in of_task:
                    befores[TUNED] = of_task[mixture, TUNED]
                rows += [
                    _change(before, after, untrained, heads, weights, confidence).assign(
                        before=name, mixture=mixture, method=method
                    )
                    for name, before in befores.items()
                ]
            family = pd.concat(rows, ignore_index=True)
            family["p_holm"] = holm(family["p_value"]) if family["p_value"].notna().all() else np.nan
            frames.append(family.assign(model=model, task=task, heads=heads))
    return pd.concat(frames, ignore_index=True)[list(PROBE_CHANGES.columns)]


def _change(
    before: list[Probed],
    after: list[Probed],
    untrained: list[Probed],
    heads: str,
    weights: Floats,
    confidence: float,
) -> pd.DataFrame:
    """Rows of `PROBE_CHANGES` for all labels of two groups, with heads that the untrained ones choose."""
    before, untrained = (each * len(after) if len(each) == 1 else each for each in (before, untrained))
    values, resampled = [], []
    for a, b, first in zip(before, after, untrained, strict=True):
        difference = b.heads(heads, first)[0] - a.heads(heads, first)[0]
        rate, of_folds = _rates(difference, b.n, weights)
        values.append(rate)
        resampled.append(of_folds)
    estimates, bootstrap = np.stack(values), np.stack(resampled, axis=1)
    bounds = over_seeds_and_examples(estimates, bootstrap, confidence)
    p = p_over_seeds_and_examples(estimates, bootstrap) if len(values) >= FEWEST else np.nan
    return pd.DataFrame(
        {"label": after[0].labels, "change": estimates.mean(axis=0), "ci_low": bounds.low.clip(-1, 1),
         "ci_high": bounds.high.clip(-1, 1), "p_value": p, "n": after[0].n.sum(axis=1).astype(int),
         "n_seeds": len(values)}
    )  # fmt: skip
