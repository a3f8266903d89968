"""Differences between dissociations: values, pairing, coverage and level."""

import itertools

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from headspec.config.runs import Run
from headspec.statistics.dissociation.analysis import dissociation_tables
from headspec.statistics.dissociation.contrasts import ACROSS, PAIRS, WITHIN, contrasts
from headspec.statistics.dissociation.pruned import PrunedPredictions
from support.data.evaluations import evaluated

FRACTION = 0.3
PARADIGMS = {"a": "single", "b": "single", "p": "pair", "q": "pair"}
MIXTURES = {"a+b": "ab", "a+p": "ap", "b+p": "bp"}


def evaluation(mixture, tasks, method, seed, rng, loss=0.2, hard=None, unlearnt=()):
    """A run whose tasks lose `loss` of accuracy .9 with their own heads pruned, .1 with the other's.

    `hard` (tasks: (60,)) shifts these probabilities by example, alike for all runs that get it. A task
    (with a method) that is `unlearnt` has the most frequent class, and with its heads pruned the other.
    """
    truth = np.random.default_rng(0).integers(2, size=60)
    most, predictions = np.bincount(truth).argmax(), {}
    for task, mask in itertools.product(tasks, ("none", *tasks)):
        p = 0.9 - (loss if mask == task else 0.1 if mask != "none" else 0) + (hard[task] if hard else 0)
        found = np.where(rng.random(60) < p, truth, 1 - truth)
        if (method, task) in unlearnt:
            found = np.full(60, 1 - most if mask == task else most)
        predictions[task, mask, FRACTION * (mask != "none")] = found
    columns = ["task", "pruned_for", "fraction"]
    return evaluated(columns, predictions, truth, mixture=mixture, method=method, seed=seed)


def study(rng, losses, seeds=3, mixtures=MIXTURES, spread=0.0, hard=0.0, **more):
    """Runs of every mixture, method and seed; `losses`: method: loss."""
    shifts = {task: hard * rng.standard_normal(60) for task in "abpq"}
    shift = {(m, s): spread * rng.standard_normal() for m in losses for s in range(seeds)}
    return [
        evaluation(mixture, tasks, method, seed, rng, losses[method] + shift[method, seed], shifts, **more)
        for (mixture, tasks), method, seed in itertools.product(mixtures.items(), losses, range(seeds))
    ]


def table(runs, pairs=tuple(MIXTURES), parents=None, **more):
    return contrasts(runs, list(pairs), PARADIGMS, parents or {}, FRACTION, 200, 0.95, seed=7, **more)


def row(frame, contrast, mixture, method="tuned"):
    chosen = (frame["contrast"] == contrast) & (frame["mixture"] == mixture) & (frame["method"] == method)
    (found,) = frame[chosen].to_dict("records")
    return found


def test_differences_are_those_of_the_means_of_single_runs():
    runs = study(np.random.default_rng(0), {"tuned": 0.4, "frozen": 0.2}, mixtures=MIXTURES | {"all": "abp"})
    found = table(runs)
    mean = dissociation_tables(runs, 20, 0.95, 0.1, FRACTION, 7)["mixtures"].groupby(["method", "mixture"])
    d = mean["mean_dissociation"].mean()
    tuned, frozen = d["tuned"], d["frozen"]
    for name in (*MIXTURES, "all"):
        assert row(found, "methods", name)["difference"] == pytest.approx(tuned[name] - frozen[name])
    total = row(found, "methods", PAIRS)
    assert total["difference"] == pytest.approx((tuned - frozen)[list(MIXTURES)].mean())
    assert total["dissociation"] == pytest.approx(tuned[list(MIXTURES)].mean())
    assert (total["against"], total["n_mixtures"], total["n_seeds"]) == ("frozen", 3, 3)
    for method in ("tuned", "frozen"):
        across = row(found, "paradigms", ACROSS, method)
        assert across["difference"] == pytest.approx(d[method][["a+p", "b+p"]].mean() - d[method]["a+b"])
        assert (across["against"], across["n_mixtures"]) == (WITHIN, 3)
    assert set(found["ci_over"]) == {"seeds and examples"}
    for _, rows in found.groupby(["contrast", found["mixture"] == PAIRS]):
        assert (rows["p_seeds_holm"] >= rows["p_seeds"]).all()
        assert rows["p_seeds_holm"].min() == pytest.approx(min(1, len(rows) * rows["p_seeds"].min()))


def test_a_task_of_pairs_is_compared_with_that_of_its_texts_beside_the_same_tasks():
    mixtures = {"a+b": "ab", "b-and-q": "bq", "a-and-q": "aq", "three": "abq"}
    runs = study(np.random.default_rng(1), {"tuned": 0.3}, 1, mixtures)
    found = table(runs, pairs=["a+b"], parents={"q": "a"})
    assert found[["contrast", "mixture", "against"]].to_numpy().tolist() == [["pairs_of", "b-and-q", "a+b"]]


def test_two_seeds_have_an_interval_over_examples_and_no_p_and_one_method_has_no_contrast():
    runs = study(np.random.default_rng(2), {"tuned": 0.4, "frozen": 0.2}, seeds=2)
    found = table(runs)
    assert set(found["ci_over"]) == {"examples"} and found[["p_seeds", "p_seeds_holm"]].isna().all(axis=None)
    pd.testing.assert_frame_equal(found, table(runs, processes=2))
    assert table([run for run in runs if run.run.method == "tuned"], pairs=["a+b"]).empty


def test_what_mixtures_share_cancels():
    """Tasks that are pruned alike in two mixtures are resampled alike."""
    one = evaluation("a+q", "aq", "tuned", 0, np.random.default_rng(3))
    frame = one.read()
    unpruned = frame[(frame["task"] == "q") & (frame["pruned_for"] == "none")]["prediction"].to_numpy()
    frame.loc[frame["task"] == "q", "prediction"] = np.tile(unpruned, 3)  # whose D is 0
    renamed = Run("m", "a+p", ("a", "p"), "tuned", 0)
    other = PrunedPredictions(renamed, dict.fromkeys("ap", "accuracy"), frame.replace({"q": "p"}))
    (found,) = table([one, other], pairs=[], parents={"q": "p"}).to_dict("records")
    assert found["dissociation"] > 0.01
    assert (found["difference"], found["ci_low"], found["ci_high"]) == pytest.approx((0, 0, 0), abs=1e-12)
    d = dissociation_tables([one], 200, 0.95, 0.1, FRACTION, 7)["combined"].set_index("task").loc["mean"]
    assert d["ci_low"] < d["dissociation"] < d["ci_high"]


def test_what_a_model_has_not_learnt_counts_in_no_contrast():
    """The other mixtures' numbers are what they are without it, and rows that have none left say so."""
    losses, mixtures, parents = {"tuned": 0.4, "frozen": 0.2}, MIXTURES | {"a-and-q": "aq"}, {"q": "p"}
    runs = study(np.random.default_rng(6), losses, mixtures=mixtures)
    lost = study(np.random.default_rng(6), losses, mixtures=mixtures, unlearnt=[("frozen", "p")])
    found = table(lost, parents=parents)
    pairs = row(found, "methods", PAIRS)
    assert (pairs["n_mixtures"], pairs["n_left_out"]) == (1, 2)
    alone = row(table([run for run in runs if run.run.mixture == "a+b"], pairs=["a+b"]), "methods", PAIRS)
    same = ["dissociation", "difference", "ci_low", "ci_high"]
    assert [pairs[name] for name in same] == [alone[name] for name in same]
    learnt = row(found, "paradigms", ACROSS)
    whole = row(table(runs, parents=parents), "paradigms", ACROSS)
    corrected = {"p_seeds_holm": 0}  # of fewer rows
    assert learnt["n_left_out"] == 0 and learnt | corrected == whole | corrected
    for contrast, mixture, method in (
        ("methods", "a+p", "tuned"), ("paradigms", ACROSS, "frozen"), ("pairs_of", "a-and-q", "frozen"),
    ):  # fmt: skip
        empty = row(found, contrast, mixture, method)
        assert empty["n_left_out"] > 0 and pd.isna(empty["difference"]) and pd.isna(empty["p_seeds_holm"])
    assert row(found, "pairs_of", "a-and-q", "tuned")["n_left_out"] == 0


@pytest.mark.thorough
@pytest.mark.parametrize(("seeds", "spread"), [(2, 0.0), (3, 0.1)])
def test_intervals_cover_and_p_keeps_its_level(seeds, spread):
    """Methods and kinds of pairs that differ by nothing; examples are as hard for all runs.

    Of 120 intervals of 95 %, as many miss 0 as 999 of 1000 simulations would at a true rate of 2 % or 3 % to
    7 %, and no more p are at most 0.05. `test_intervals.py` has more seeds and spreads of the same intervals.
    """
    rng, missed, p = np.random.default_rng(5), [], []
    for _ in range(120):
        found = table(study(rng, {"tuned": 0.3, "frozen": 0.3}, seeds, spread=spread, hard=0.15))
        chosen = found[found["mixture"].isin([PAIRS, ACROSS]) & (found["method"] == "tuned")]
        missed += [((chosen["ci_low"] > 0) | (chosen["ci_high"] < 0)).to_numpy()]
        p += [(chosen["p_seeds"] <= 0.05).to_numpy()]
    least, most = stats.binom.ppf([0.001, 0.999], 120, [0.02 if spread == 0 else 0.03, 0.07])
    for share in np.sum(missed, axis=0):
        assert least <= share <= most
    assert np.sum(p, axis=0).max() <= most
