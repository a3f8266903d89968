"""Matrices of gains and predictors from tables."""

import numpy as np
import pandas as pd
import pytest

from headspec.statistics.grouping.gains import features, measured_gains, sizes

TASKS, METRICS = ("a", "b", "c"), dict.fromkeys("abc", "accuracy")
nan = np.nan


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


def gains(table: pd.DataFrame = SHARING, model: str = "m"):
    return measured_gains(table, TASKS, METRICS, model)


def test_sources_are_rows_and_targets_columns():
    found = gains()
    np.testing.assert_array_equal(found.gain, [[nan, 0.02, 0.04], [0.01, nan, 0.06], [0.03, 0.05, nan]])
    np.testing.assert_allclose(found.low, found.gain - 0.1)
    np.testing.assert_allclose(found.high, found.gain + 0.2)
    assert found.unlearnt == () and found.tasks == TASKS
    # variances within targets are (0.01 ** 2) * 2, (0.015 ** 2) * 2 and (0.01 ** 2) * 2, with a freedom of 1
    between = (2 * 0.01**2 + 2 * 0.015**2 + 2 * 0.01**2) / 3
    assert found.reliability == pytest.approx(1 - 0.01**2 / 4 / between)


def test_a_task_that_is_never_learnt_has_no_gains():
    table = SHARING.assign(unpruned_at_chance=SHARING["task"].eq("c"))
    found = gains(table)
    assert found.unlearnt == ("c",)
    assert (~np.isnan(found.gain)).sum() == 2 and np.isnan(found.low[2]).all()
    table.loc[table["mixture"] == "a+c", "unpruned_at_chance"] = False
    assert gains(table).unlearnt == ()


def test_unknown_pairs_and_single_seeds():
    found = gains(SHARING[SHARING["mixture"] != "b+c"])
    np.testing.assert_array_equal(found.gain, [[nan, 0.02, 0.04], [0.01, nan, nan], [0.03, nan, nan]])
    # means within targets are of the known gains; only those of a differ, with a freedom of 1
    assert found.reliability == pytest.approx(1 - 0.01**2 / 4 / (2 * 0.01**2))
    assert np.isnan(gains(SHARING.assign(between_seeds=None)).reliability)
    assert gains(SHARING.assign(between_seeds=1.0)).reliability == 0
    assert gains(SHARING.assign(difference=0.1)).reliability == 0
    other = gains(model="other")
    assert np.isnan(other.gain).all() and np.isnan(other.reliability)


def test_affinities_are_directed_and_replace_their_mean():
    pairs = [("a", "b", 0.1), ("a", "c", 0.2), ("b", "c", 0.3), ("a", "d", 0.4)]
    similarity = pd.DataFrame(
        [("m", name, a, b, None, value) for name in ("text", "lookahead") for a, b, value in pairs]
        + [("m", "text", "a", "b", "subject", 9.0), ("other", "text", "a", "b", None, 9.0)],
        columns=["model", "measure", "task_a", "task_b", "subject", "similarity"],
    )
    affinity = pd.DataFrame(
        [
            ("m", "lookahead", "a", "b", 1.0),
            ("m", "lookahead", "b", "a", 2.0),
            ("other", "text", "a", "b", 9.0),
        ],
        columns=["model", "measure", "source", "target", "affinity"],
    )
    expected = [[nan, 0.1, 0.2], [0.1, nan, 0.3], [0.2, 0.3, nan]]
    for given, lookahead in ((None, expected), (affinity, [[nan, 1, nan], [2, nan, nan], [nan] * 3])):
        found = features(similarity, given, TASKS, "m")
        assert set(found) == {"text", "lookahead"}
        np.testing.assert_array_equal(found["text"], expected)
        np.testing.assert_array_equal(found["lookahead"], lookahead)


def test_sizes_are_of_the_source_per_example_of_the_target():
    x = np.log(2)
    np.testing.assert_allclose(sizes([1000, 500, 500]), [[0, x, x], [-x, 0, 0], [-x, 0, 0]])
