"""Matrices of gains and predictors from tables."""

import numpy as np
import pandas as pd
import pytest

from headspec.statistics.grouping.gains import features, measured_gains, sizes

TASKS, METRICS = ("a", "b", "c"), dict.fromkeys("abc", "accuracy")


def row(mixture, task, difference, metric="accuracy", method="tuned"):
    return {
        "model": "m", "mixture": mixture, "method": method, "task": task, "metric": metric, "n_seeds": 4,
        "value": 0.8, "between_seeds": 0.01, "difference": difference, "ci_low": difference - 0.1,
        "ci_high": difference + 0.2, "unpruned_at_chance": False,
    }  # fmt: skip


SHARING = pd.DataFrame(
    [
        row("a+b", "a", 0.01), row("a+b", "b", 0.02), row("a+c", "a", 0.03), row("a+c", "c", 0.04),
        row("b+c", "b", 0.05), row("b+c", "c", 0.06), row("a+b", "a", 0.5, metric="f1"),
        row("a+b", "a", 0.5, method="iat"), row("a+b", "mean", 0.5, metric="mean"), row("a+b+c", "a", 0.5),
        row("a", "a", np.nan, method="single"),
    ]
)  # fmt: skip


def test_sources_are_rows_and_targets_columns():
    found = measured_gains(SHARING, TASKS, METRICS, "m")
    nan = np.nan
    assert np.array_equal(
        found.gain, [[nan, 0.02, 0.04], [0.01, nan, 0.06], [0.03, 0.05, nan]], equal_nan=True
    )
    assert np.nanmax(abs(found.gain - found.low - 0.1)) < 1e-12
    assert np.nanmax(abs(found.high - found.gain - 0.2)) < 1e-12 and found.unlearnt == ()
    # variances within targets are (0.01 ** 2) * 2, (0.015 ** 2) * 2 and (0.01 ** 2) * 2, with a freedom of 1
    between = (2 * 0.01**2 + 2 * 0.015**2 + 2 * 0.01**2) / 3
    assert found.reliability == pytest.approx(1 - 0.01**2 / 4 / between)


def test_a_task_that_is_never_learnt_has_no_gains():
    table = SHARING.assign(unpruned_at_chance=SHARING["task"].eq("c"))
    found = measured_gains(table, TASKS, METRICS, "m")
    assert found.unlearnt == ("c",)
    assert (~np.isnan(found.gain)).sum() == 2 and np.isnan(found.low[2]).all()
    table.loc[table["mixture"] == "a+c", "unpruned_at_chance"] = False
    assert measured_gains(table, TASKS, METRICS, "m").unlearnt == ()


def test_unknown_pairs_and_single_seeds():
    found = measured_gains(SHARING[SHARING["mixture"] != "b+c"], TASKS, METRICS, "m")
    assert np.isnan(found.gain[1, 2]) and found.gain[0, 2] == 0.04
    assert np.isnan(measured_gains(SHARING.assign(between_seeds=None), TASKS, METRICS, "m").reliability)
    assert measured_gains(SHARING.assign(between_seeds=1.0), TASKS, METRICS, "m").reliability == 0
    assert np.isnan(measured_gains(SHARING, TASKS, METRICS, "other").gain).all()


def test_affinities_are_directed_and_replace_their_mean():
    pairs = [("a", "b", 0.1), ("a", "c", 0.2), ("b", "c", 0.3)]
    similarity = pd.DataFrame(
        [("m", name, a, b, None, value) for name in ("text", "lookahead") for a, b, value in pairs]
        + [("m", "text", "a", "b", "subject", 9.0), ("other", "text", "a", "b", None, 9.0)],
        columns=["model", "measure", "task_a", "task_b", "subject", "similarity"],
    )
    affinity = pd.DataFrame(
        [("m", "lookahead", "a", "b", 1.0), ("m", "lookahead", "b", "a", 2.0)],
        columns=["model", "measure", "source", "target", "affinity"],
    )
    found = features(similarity, affinity, TASKS, "m")
    nan = np.nan
    expected = [[nan, 0.1, 0.2], [0.1, nan, 0.3], [0.2, 0.3, nan]]
    assert np.array_equal(found["text"], expected, equal_nan=True)
    assert (
        found["lookahead"][0, 1] == 1 and found["lookahead"][1, 0] == 2 and np.isnan(found["lookahead"][2, 0])
    )
    assert np.array_equal(features(similarity, None, TASKS, "m")["lookahead"], expected, equal_nan=True)


def test_sizes_are_of_the_source_per_example_of_the_target():
    found = sizes([1000, 500, 500])
    assert found[0, 1] == pytest.approx(np.log(2)) and found[1, 0] == -found[0, 1] and found[1, 2] == 0
