"""Overlap of kept heads: closed forms, and what layers alone explain."""

import itertools

import numpy as np
import pandas as pd
import pytest

from headspec.config.runs import PrunedRun, Run
from headspec.statistics.kept_heads import correlation, jaccard, overlap, within_layers
from support.data.elements import elements

HEADS = 6


def cell(seed: int, mixture: str = "a+b", method: str = "tuned", scope: str = "shared") -> PrunedRun:
    return PrunedRun(Run("m", mixture, tuple(mixture.split("+")), method, seed), "l0", scope, 0.3)


def rows(kept: np.ndarray, task: str | None = None, step: int = 9) -> pd.DataFrame:
    return elements("layer", "head", gate=kept.astype(float), kept=kept).assign(task=task, step=step)


def random_by_layer(rng, counts=(1, 3, 5)) -> np.ndarray:
    return np.stack([rng.permutation(np.arange(HEADS) < n) for n in counts])


def means(tables: dict[PrunedRun, pd.DataFrame], draws: int, seed: int = 0) -> pd.DataFrame:
    """The rows of means over pairs."""
    return overlap(tables, draws, seed).query("a == 'mean'")


def test_jaccard_and_correlation():
    a, b = np.zeros((2, 2), dtype=bool), np.zeros((2, 2), dtype=bool)
    assert np.isnan(jaccard(a, b))
    a[0] = b[:, 0] = True
    assert jaccard(a, b) == pytest.approx(1 / 3)
    x, y = np.random.default_rng(0).random((2, 3, 4))
    expected = [np.corrcoef(a, b)[0, 1] for a, b in zip(x, y, strict=True)]
    assert correlation(x, y) == pytest.approx(expected)
    assert np.isnan(correlation(x, np.ones((3, 4)))).all()


def test_permutations_within_ragged_layers():
    """Every order of the heads of a layer is as frequent as any other; places without a head stay."""
    exists = np.arange(4) < np.array([4, 0, 3, 1])[:, None]
    order = within_layers(exists, 6000, np.random.default_rng(0))
    assert np.array_equal(np.sort(order, axis=-1), np.broadcast_to(np.arange(4), order.shape))
    assert (order[:, 2, 3] == 3).all() and (order[:, 3, 0] == 0).all()
    counts = np.unique(order[:, 2, :3], axis=0, return_counts=True)[1]
    assert len(counts) == 6 and np.abs(counts - 1000).max() < 150  # five standard errors


def test_overlap_of_ragged_layers_is_that_of_the_heads_that_exist():
    """Layer 0 has no heads, layer 2 two, of which each seed keeps one: alike in half of the permutations."""
    first, second = np.zeros((2, 3, 4), dtype=bool)
    first[1, :2] = second[1, :2] = first[2, 0] = second[2, 1] = True
    exists = np.arange(4) < np.array([0, 4, 2])[:, None]
    tables = {cell(s): rows(kept)[exists.ravel()] for s, kept in enumerate((first, second))}
    found = overlap(tables, 6000, 0).iloc[0]
    assert found["jaccard"] == pytest.approx(2 / 4)
    assert found["correlation"] == pytest.approx(np.corrcoef(first[exists], second[exists])[0, 1])
    shares = {  # heads in common in both layers: their number, and its probability
        0: 1 / 6 / 2, 1: (4 / 6 + 1 / 6) / 2, 2: (1 / 6 + 4 / 6) / 2, 3: 1 / 6 / 2,
    }  # fmt: skip
    expected = sum(p * n / (6 - n) for n, p in shares.items())
    assert found["jaccard_by_layer"] == pytest.approx(expected, abs=0.02)


def test_what_layers_alone_give():
    """Two heads of six kept in each layer by both: the mean Jaccard over permutations, by counting."""
    kept = [random_by_layer(np.random.default_rng(s), (2, 2, 2)) for s in range(2)]
    result = overlap({cell(s): rows(of) for s, of in enumerate(kept)}, 20_000, 0).iloc[0]
    chance = {0: 6 / 15, 1: 8 / 15, 2: 1 / 15}  # heads in common of one layer
    expected = sum(
        np.prod([chance[n] for n in common]) * sum(common) / (12 - sum(common))
        for common in itertools.product(chance, repeat=3)
    )
    assert result["jaccard_by_layer"] == pytest.approx(expected, abs=0.01)
    assert result["correlation_by_layer"] == pytest.approx(0, abs=0.01)  # layers keep equally many


def test_seeds_and_tasks_are_paired_with_their_own_kind():
    """At the end of learning; means are those of pairs."""
    rng, tables = np.random.default_rng(0), {}
    for s in range(3):
        ends = [rows(random_by_layer(rng), task, step) for step in (3, 9) for task in ("a", "b")]
        tables[cell(s, scope="per_task")] = pd.concat(ends)
    for task, s in itertools.product(("a", "b", "c"), range(2)):
        tables[cell(s, task, "single")] = rows(random_by_layer(rng))
    result = overlap(tables, 50, 0)
    pairs = result[result["a"] != "mean"]
    own = pairs[pairs["scope"] == "per_task"]
    assert set(own[["what", "within", "a", "b"]].itertuples(index=False, name=None)) == (
        {("seeds", task, *pair) for task in ("a", "b") for pair in itertools.combinations("012", 2)}
        | {("tasks", seed, "a", "b") for seed in "012"}
    )
    last = tables[cell(1, scope="per_task")].query("step == 9").groupby("task")["kept"].agg(list)
    both = own[(own["what"] == "tasks") & (own["within"] == "1")]
    assert both["jaccard"].item() == jaccard(*np.reshape([*last], (2, 3, HEADS)))
    tasks = pairs[(pairs["method"] == "single") & (pairs["what"] == "tasks")]
    assert tasks["mixture"].isna().all() and len(tasks) == 2 * 3
    assert pairs["p_value"].isna().all()
    keys = ["mixture", "method", "scope", "what"]
    by_kind = pairs.groupby(keys, dropna=False)[["jaccard", "correlation"]].mean()
    mean = result[result["a"] == "mean"].set_index(keys)
    pd.testing.assert_frame_equal(mean[["jaccard", "correlation"]].sort_index(), by_kind.sort_index())


def test_two_empty_sets_have_nothing_in_common_and_do_not_count():
    drawn, empty = random_by_layer(np.random.default_rng(0)), np.zeros((3, HEADS), dtype=bool)
    sets = {"some": (drawn, drawn, empty, empty), "none": (empty, empty)}
    tables = {cell(s, name): rows(kept) for name, group in sets.items() for s, kept in enumerate(group)}
    found = means(tables, 20).set_index("mixture")
    assert found.loc["some", "jaccard"] == pytest.approx(1 / 5)  # of six pairs, one of empty sets
    assert found.loc["none", ["jaccard", "jaccard_by_layer", "p_value", "p_holm"]].isna().all()


def test_heads_that_all_seeds_keep_are_found_in_each_of_many_mixtures():
    """Means are not corrected for those of other runs."""
    same = random_by_layer(np.random.default_rng(1), (1, 2, 3))
    found = means({cell(s, f"a+b{i}"): rows(same) for i in range(30) for s in range(3)}, 200)
    assert len(found) == 30 and (found[["jaccard", "correlation"]] == 1).all(axis=None)
    assert (found["jaccard_by_layer"] < 0.5).all() and found["p_value"].iloc[0] == pytest.approx(1 / 201)
    assert found["p_holm"].tolist() == found["p_value"].tolist() and found["p_holm"].max() < 0.05


@pytest.mark.thorough
def test_level_where_layers_explain_all():
    """Three seeds in three pairs, which share sets."""
    rng, n = np.random.default_rng(3), 150
    p = np.array([
        means({cell(s): rows(random_by_layer(rng)) for s in range(3)}, 200, i)["p_value"].item()
        for i in range(n)
    ])  # fmt: skip
    assert 0.01 <= np.mean(p <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
    assert 0.3 <= np.mean(p <= 0.5) <= 0.6


@pytest.mark.thorough
@pytest.mark.parametrize("what", ["seeds", "tasks"])
def test_level_where_the_sets_of_one_kind_are_alike(what):
    """Seeds differ by chance but tasks keep the same heads in each; or the other way round."""
    rng, n, p = np.random.default_rng(4), 120, []
    for i in range(n):
        sets = {}
        for name in range(3):
            kept = random_by_layer(rng)
            for other in range(4):
                sets[(name, other) if what == "seeds" else (other, name)] = kept
        seeds, tasks = ({key[k] for key in sets} for k in (0, 1))
        tables = {
            cell(s, scope="per_task"): pd.concat([rows(sets[s, t], "abcd"[t]) for t in sorted(tasks)])
            for s in sorted(seeds)
        }
        p.append(means(tables, 100, i).query("what == @what")["p_value"].item())
    assert 0.01 <= np.mean(np.array(p) <= 0.05) <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / n)
