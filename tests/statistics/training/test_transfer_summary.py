"""Means of transfer over seeds and draws, and differences to tuned encoders, paired."""

import numpy as np
import pytest

from headspec.statistics.intervals import over_seeds_and_draws
from headspec.statistics.transfer import transfer_summary
from support.data.transfers import METHODS, summarised, transfer_table

DIFFERENCE = ["difference", "difference_low", "difference_high"]


def test_differences_are_paired():
    """Noise that all encoders share widens the intervals of means, not those of differences."""
    table = summarised({"a+b": ["a", "b"]}, METHODS)
    iat = table[table["method"] == "iat"]
    np.testing.assert_allclose(iat[DIFFERENCE].to_numpy(), 0.05, atol=1e-9)
    assert (iat["ci_high"] - iat["ci_low"] > 0.01).all()
    assert table.loc[table["method"] == "tuned", DIFFERENCE].isna().all(axis=None)
    np.testing.assert_allclose(table.loc[table["method"] == "single", "difference"], -0.05, atol=1e-9)


def test_each_mixture_is_compared_with_its_own_tasks_alone():
    mixtures = {"a+b": ["a", "b"], "abc": ["a", "b", "c"]}
    table = summarised(mixtures, METHODS)
    one = table[(table["samples"] == 4) & (table["tuning"] == "full")]
    for mixture, names in mixtures.items():
        part = one[one["mixture"] == mixture].set_index("source")
        assert set(part.index) == {"none", mixture, "mean", *names}
        singles = part.loc[part["method"] == "single", "value"]
        assert singles["mean"] == pytest.approx(singles[names].mean())
    assert not one.duplicated(["mixture", "method", "source"]).any()


def test_intervals_are_over_seeds_and_draws_and_those_of_one_seed_over_draws():
    table = transfer_table({"a+b": ["a", "b"]}, METHODS, seeds=4, draws=6, noise=0.1)
    means = transfer_summary(table, {"a+b": ["a", "b"]}, 0.9)
    one = means[(means["method"] == "iat") & (means["tuning"] == "full")].iloc[0]
    rows = table[(table["tuning"] == "full") & (table["samples"] == one["samples"])]
    tuned, iat = (
        rows[rows["method"] == method].pivot(index="seed", columns="draw", values="value").to_numpy()
        for method in ("tuned", "iat")
    )
    interval = over_seeds_and_draws(iat, 0.9)
    assert one[["ci_low", "ci_high", "ci_over"]].tolist() == list(interval)
    assert interval.over == "seeds and draws" and one["value"] == pytest.approx(iat.mean())
    low, high, _ = over_seeds_and_draws(iat - tuned, 0.9)
    assert one[DIFFERENCE].tolist() == pytest.approx([(iat - tuned).mean(), low, high])
    alone = summarised({}, ["pretrained"], seeds=1)
    assert (alone["ci_low"] < alone["value"]).all() and (alone["value"] < alone["ci_high"]).all()
    assert set(alone["ci_over"]) == {"draws"}
    assert alone["mixture"].eq("none").all() and alone["difference"].isna().all()
