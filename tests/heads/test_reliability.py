"""Agreement of importance between halves, seeds, tasks and methods."""

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.config.runs import Run
from headspec.heads.ranking import blocks, fold_means
from headspec.heads.reliability import agreement, reliability
from support.schemas import SCHEMAS

UP = np.arange(6.0).reshape(2, 3)
SWAPPED = np.array([[1.0, 0, 2], [3, 4, 5]])
NEAR = 1 - 6 * 2 / (6 * 35)  # two neighbours change places


def importance(folds_of_tasks):
    """Table 'importance' of {task: (folds, layers, heads)}."""
    rows = [
        (task, *index, value, 5)
        for task, folds in folds_of_tasks.items()
        for index, value in np.ndenumerate(np.asarray(folds, float))
    ]
    return pd.DataFrame(rows, columns=["task", "fold", "layer", "head", "importance", "n"])


def run(seed, mixture="a+b", method="tuned"):
    return Run(model="m", mixture=mixture, tasks=tuple(mixture.split("+")), method=method, seed=seed)


def test_agreement_in_closed_form():
    a, b = np.arange(10.0).reshape(2, 5), np.arange(10.0).reshape(2, 5)
    b[1, 3:] = 2.5, 0.5  # top three: 7, 8, 9 in a; 7, 6, 5 in b
    result = agreement(a, b, 0.3)
    assert result["top_overlap"] == pytest.approx(1 / 5)
    assert result["spearman"] == pytest.approx(pd.Series(a.ravel()).corr(pd.Series(b.ravel()), "spearman"))
    assert agreement(a, -a, 0.5) == pytest.approx({"spearman": -1, "top_overlap": 0})
    assert np.isnan(agreement(a, b, 0.05)["top_overlap"])
    ragged = [np.vstack([of, np.full((1, 5), np.nan)]) for of in (a, b)]
    assert agreement(*ragged, 0.3) == result


def test_halves_are_first_and_last_folds():
    frame = importance({"a": [UP, UP, UP[::-1, ::-1], UP[::-1, ::-1]], "b": [UP, UP, UP, UP]})
    table = reliability([(run(0), frame)], 0.5).query("kind == 'split_half'").set_index("task")
    assert len(table) == 2 and table[["against", "seed_b"]].isna().all(axis=None)
    np.testing.assert_allclose(table.loc[["a", "b"], ["spearman", "top_overlap"]], [[-1, 0], [1, 1]])


def test_samples_that_say_nothing_of_heads_have_no_reliability_however_often_they_repeat():
    """Halves of interleaved samples agree by .8 here, as they share inputs; one input has no halves."""
    rng = np.random.default_rng(0)
    found = []
    for _ in range(40):
        inputs = rng.integers(0, 60, 400)
        values = rng.random((60, 3, 4))[inputs]
        frame = fold_means(blocks([*inputs], 10), importance=values).assign(task="a")
        table = reliability([(run(0, "a"), frame)], 0.5)
        found.append(table.query("kind == 'split_half'")["spearman"].item())
    assert abs(np.mean(found)) < 3 * np.std(found) / 40**0.5 < 0.2
    frame = fold_means(blocks([0] * 20, 10), importance=values[:20]).assign(task="a")
    row = reliability([(run(0, "a"), frame)], 0.5).iloc[0]
    assert row["kind"] == "split_half" and row[["spearman", "top_overlap"]].isna().all()


def test_every_pair_of_seeds_of_the_same_runs_in_any_order_and_in_any_process(tmp_path):
    """The table is the same to the byte, also from stored tables that two processes share."""
    rng = np.random.default_rng(0)
    runs = [run(seed, mixture) for seed in (2, 0, 1) for mixture in ("a+b", "a+c")]
    pairs = [(r, importance({t: rng.random((10, 3, 4)) for t in r.tasks})) for r in runs]
    stored = []
    for i, (of_run, frame) in enumerate(pairs):
        stored.append((of_run, str(tmp_path / f"{i}.parquet")))
        tables.write(stored[-1][1], SCHEMAS["importance"], frame.assign(fisher=0.0), {})
    found = {
        "one": reliability(pairs, 0.3),
        "again": reliability(pairs[::-1], 0.3),
        "stored": reliability(iter(stored), 0.3, processes=2),
    }
    for name, table in found.items():
        tables.write(tmp_path / name, SCHEMAS["reliability"], table, {})
        assert (tmp_path / name).read_bytes() == (tmp_path / "one").read_bytes()
    table = tables.read(tmp_path / "one")
    seeds = table[table["kind"] == "seeds"]
    assert len(table) == 6 * 2 * 2 + 2 * 2 * 3 and len(seeds) == 12
    assert set(table[["model", "method", "mixture", "task"]].itertuples(index=False, name=None)) == {
        ("m", "tuned", r.mixture, task) for r in runs for task in r.tasks
    }
    assert {tuple(p) for p in seeds[["seed_a", "seed_b"]].astype(int).to_numpy()} == {(0, 1), (0, 2), (1, 2)}


def test_tasks_of_a_run_seeds_and_methods_are_compared():
    folds = {
        ("tuned", 0): {"a": [UP], "b": [-UP]},
        ("tuned", 1): {"a": [UP], "b": [SWAPPED]},
        ("frozen", 0): {"a": [SWAPPED], "b": [-UP]},
        ("frozen", 7): {"a": [-UP], "b": [-UP]},
    }
    table = reliability(
        [
            (run(seed, method=method), importance({task: 2 * fold for task, fold in maps.items()}))
            for (method, seed), maps in folds.items()
        ],
        0.5,
    )
    tasks = table[table["kind"] == "tasks"].set_index(["method", "seed_a", "task"])
    between = {("tuned", 0): -1, ("tuned", 1): NEAR, ("frozen", 0): -NEAR, ("frozen", 7): 1}
    expected = {(*of, task): r for of, r in between.items() for task in "ab"}
    assert tasks["spearman"].to_dict() == pytest.approx(expected)
    assert tasks["against"].tolist() == ["b", "a"] * 4 and tasks["seed_b"].isna().all()
    assert tasks.loc[("tuned", 0, "a"), "top_overlap"] == 0
    assert tasks.loc[("frozen", 7, "a"), "top_overlap"] == 1
    seeds = table[table["kind"] == "seeds"].set_index(["method", "task"])["spearman"]
    assert seeds.to_dict() == pytest.approx(
        {("tuned", "a"): 1, ("tuned", "b"): -NEAR, ("frozen", "a"): -NEAR, ("frozen", "b"): 1}
    )
    methods = table[table["kind"] == "methods"].set_index(["method", "against", "seed_a", "seed_b", "task"])
    assert len(methods) == 2 * 2 * 2 * 2
    for of, r in {(0, 0, "a"): NEAR, (1, 0, "a"): NEAR, (1, 7, "b"): -NEAR}.items():
        own, other, task = of
        for key in (("tuned", "frozen", own, other, task), ("frozen", "tuned", other, own, task)):
            assert methods.loc[key, "spearman"] == pytest.approx(r)
