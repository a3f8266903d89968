"""Agreement of importance between halves, seeds, tasks and methods."""

import numpy as np
import pandas as pd
import pytest

from headspec import tables
from headspec.config.runs import Run
from headspec.heads.reliability import agreement, reliability
from support.schemas import SCHEMAS


def importance(folds_of_tasks):
    """Table 'importance' of {task: (folds, layers, heads)}."""
    return pd.DataFrame(
        [
            (task, *index, value, 5)
            for task, folds in folds_of_tasks.items()
            for index, value in np.ndenumerate(np.asarray(folds, float))
        ],
        columns=["task", "fold", "layer", "head", "importance", "n"],
    )


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


def test_halves_are_even_and_odd_folds():
    up = np.arange(6.0).reshape(2, 3)
    frame = importance({"a": [up, up[::-1, ::-1], up, up[::-1, ::-1]], "b": [up, up, up, up]})
    table = reliability([(run(0), frame)], 0.5).set_index("task")
    table = table[table["kind"] == "split_half"]
    assert len(table) == 2 and table[["against", "seed_b"]].isna().all(axis=None)
    assert table.loc["a", ["spearman", "top_overlap"]].tolist() == pytest.approx([-1, 0])
    assert table.loc["b", ["spearman", "top_overlap"]].tolist() == pytest.approx([1, 1])


def test_every_pair_of_seeds_of_the_same_runs(tmp_path):
    rng = np.random.default_rng(0)
    runs = [run(seed, mixture) for seed in (2, 0, 1) for mixture in ("a+b", "a+c")]
    pairs = [(r, importance({t: rng.random((10, 3, 4)) for t in r.tasks})) for r in runs]
    tables.write(tmp_path / "r.parquet", SCHEMAS["reliability"], reliability(pairs, 0.3), {})
    table = tables.read(tmp_path / "r.parquet")
    seeds = table[table["kind"] == "seeds"]
    assert len(table) == 6 * 2 * 2 + 2 * 2 * 3 and list(table) == list(SCHEMAS["reliability"].columns)
    assert set(table[["model", "method", "mixture", "task"]].itertuples(index=False, name=None)) == {
        (r.model, r.method, r.mixture, task) for r in runs for task in r.tasks
    }
    assert seeds[["model", "method", "mixture", "task"]].notna().all(axis=None) and len(seeds) == 12
    assert {tuple(p) for p in seeds[["seed_a", "seed_b"]].astype(int).to_numpy()} == {(0, 1), (0, 2), (1, 2)}
    again = reliability(pairs[::-1], 0.3)
    tables.write(tmp_path / "again.parquet", SCHEMAS["reliability"], again, {})
    assert (tmp_path / "r.parquet").read_bytes() == (tmp_path / "again.parquet").read_bytes()


def test_tasks_of_a_run_and_methods_are_compared():
    up = np.arange(6.0).reshape(2, 3)
    down, swapped = -up, up.copy()
    swapped[0, :2] = 1, 0  # 0 and 1 change places: a correlation of 1 - 6 * 2 / (6 * 35)
    folds = {
        ("tuned", 0): {"a": [up], "b": [down]},
        ("tuned", 1): {"a": [up], "b": [swapped]},
        ("frozen", 0): {"a": [swapped], "b": [down]},
        ("frozen", 7): {"a": [down], "b": [down]},
    }
    table = reliability(
        [
            (run(seed, method=method), importance({task: 2 * fold for task, fold in maps.items()}))
            for (method, seed), maps in folds.items()
        ],
        0.5,
    )
    near = 1 - 12 / 210
    tasks = table[table["kind"] == "tasks"].set_index(["method", "seed_a", "task"])
    assert tasks["spearman"].to_dict() == pytest.approx({
        ("tuned", 0, "a"): -1, ("tuned", 0, "b"): -1, ("tuned", 1, "a"): near, ("tuned", 1, "b"): near,
        ("frozen", 0, "a"): -near, ("frozen", 0, "b"): -near, ("frozen", 7, "a"): 1, ("frozen", 7, "b"): 1,
    })  # fmt: skip
    assert tasks["against"].tolist() == ["b", "a"] * 4 and tasks["seed_b"].isna().all()
    seeds = table[table["kind"] == "seeds"].set_index(["method", "task"])["spearman"]
    assert seeds.to_dict() == pytest.approx(
        {("tuned", "a"): 1, ("tuned", "b"): -near, ("frozen", "a"): -near, ("frozen", "b"): 1}
    )
    overlaps = table.set_index(["kind", "method", "seed_a", "task"])["top_overlap"]
    assert overlaps[("tasks", "tuned", 0, "a")] == 0 and overlaps[("tasks", "frozen", 7, "a")] == 1
    methods = table[table["kind"] == "methods"].set_index(["method", "against", "seed_a", "seed_b", "task"])
    assert len(methods) == 2 * 2 * 2 * 2
    assert methods.loc[("tuned", "frozen", 0, 0, "a"), "spearman"] == pytest.approx(near)
    assert methods.loc[("frozen", "tuned", 0, 1, "a"), "spearman"] == pytest.approx(near)
    assert methods.loc[("tuned", "frozen", 1, 7, "b"), "spearman"] == pytest.approx(-near)
    assert methods.loc[("frozen", "tuned", 7, 1, "b"), "spearman"] == pytest.approx(-near)


def test_processes_share_the_work_and_change_nothing(tmp_path):
    rng = np.random.default_rng(0)
    runs = [run(seed, mixture) for mixture in ("a+b", "a+c", "b+c") for seed in (0, 1)]
    pairs = [(r, importance({t: rng.random((10, 3, 4)) for t in r.tasks})) for r in runs]
    stored = []
    for i, (of_run, frame) in enumerate(pairs):
        path = str(tmp_path / f"{i}.parquet")
        tables.write(path, SCHEMAS["importance"], frame.assign(fisher=0.0), {})
        stored.append((of_run, path))
    pd.testing.assert_frame_equal(reliability(iter(stored), 0.3, processes=2), reliability(pairs, 0.3))
