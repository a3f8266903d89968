"""Tasks alone and together: planted differences, and the level of p over seeds and sentences."""

import numpy as np
import pandas as pd
import pytest

from headspec import per_example
from headspec.config.runs import Run
from headspec.statistics.grouping.gains import between_pairs, sharing

TASKS, METRICS = ("pos", "ner"), {"pos": ["word_accuracy"], "ner": ["word_accuracy"]}
WORDS = 10


def evaluation(rng: np.random.Generator, accuracy: dict[str, float], ease: np.ndarray) -> pd.DataFrame:
    """Sentences of ten words with that many right, some of them easier for all runs."""
    rows = []
    for task, mean in accuracy.items():
        right = rng.binomial(WORDS, np.clip(mean + ease, 0, 1))
        frame = pd.DataFrame({"task": task, "example": np.arange(len(ease))})
        label = per_example.columns("label", np.tile([WORDS, 0, WORDS], (len(ease), 1)))
        prediction = per_example.columns("prediction", np.stack([right, np.full_like(right, WORDS)], axis=-1))
        rows.append(frame.assign(**label, **prediction))
    return pd.concat(rows, ignore_index=True)


def study(
    rng: np.random.Generator,
    seeds: int,
    n: int,
    spread: float = 0.0,
    alone: tuple[float, float] = (0.7, 0.7),
    joint: tuple[float, float] = (0.7, 0.7),
) -> dict[Run, pd.DataFrame]:
    """Evaluations of runs of both tasks alone and together, with accuracies that vary by `spread`."""
    ease, tables = rng.normal(0, 0.1, n), {}
    for seed in range(seeds):
        for task, accuracy in zip(TASKS, alone, strict=True):
            mean = {task: accuracy + rng.normal(0, spread)}
            tables[Run("m", task, (task,), "single", seed)] = evaluation(rng, mean, ease)
        means = {task: accuracy + rng.normal(0, spread) for task, accuracy in zip(TASKS, joint, strict=True)}
        tables[Run("m", "pos+ner", TASKS, "tuned", seed)] = evaluation(rng, means, ease)
    return tables


def shared(tables: dict[Run, pd.DataFrame], resamples: int = 200, metrics=METRICS, seed=0) -> pd.DataFrame:
    table = sharing(list(tables), tables.__getitem__, metrics, resamples, 0.95, seed)
    return table.set_index(["mixture", "task"], drop=False)


def test_one_task_gains_and_the_other_loses():
    table = shared(study(np.random.default_rng(0), 3, 200, alone=(0.8, 0.6), joint=(0.7, 0.7)))
    assert table.loc[("pos", "pos"), "value"] == pytest.approx(0.8, abs=0.03)
    assert table["difference"].isna()[[("pos", "pos"), ("ner", "ner")]].all()
    assert table["between_seeds"].between(0, 0.03, inclusive="neither").all()
    pos, ner, mean = (table.loc[("pos+ner", task)] for task in ("pos", "ner", "mean"))
    assert pos["difference"] == pytest.approx(-0.1, abs=0.03) and pos["p_holm"] < 0.01 and pos["ci_high"] < 0
    assert ner["difference"] == pytest.approx(0.1, abs=0.03) and ner["p_holm"] < 0.01
    assert mean["difference"] == pytest.approx((pos["difference"] + ner["difference"]) / 2)
    assert mean["p_value"] > 0.05 and mean["p_holm"] == mean["p_value"]


def test_p_over_three_seeds_covers_what_varies_between_them():
    table = shared(study(np.random.default_rng(1), 3, 200, 0.1))
    compared = table[table["difference"].notna()]
    assert (compared["difference"].abs() > 0.01).any() and (compared["p_seeds"] > 0.05).all()
    assert (compared["p_value"] < 0.05).any()  # of these runs
    two = shared(study(np.random.default_rng(1), 2, 200, 0.1))
    assert two["p_seeds"].isna().all() and two["p_value"].notna().equals(two["difference"].notna())


def test_tasks_of_which_nothing_is_learnt_alone_or_together_are_marked():
    rng, label = np.random.default_rng(4), np.arange(100.0) % 2

    def answers(**right: float) -> pd.DataFrame:
        rows = [
            {"task": task, "example": i, "label": y, "prediction": y if rng.random() < share else 1 - y}
            for task, share in right.items() for i, y in enumerate(label)
        ]  # fmt: skip
        return pd.DataFrame(rows)

    tables = {
        Run("m", "pos", ("pos",), "single", 0): answers(pos=0.5),
        Run("m", "ner", ("ner",), "single", 0): answers(ner=0.9),
        Run("m", "pos+ner", TASKS, "tuned", 0): answers(pos=0.5, ner=0.5),
        Run("m", "pos+all", ("pos", "all"), "tuned", 0): answers(pos=0.9, all=0.5),
    }
    marks = shared(tables, 50, dict.fromkeys(("pos", "ner", "all"), ["accuracy"]))["unpruned_at_chance"]
    assert marks[marks].index.tolist() == [("pos", "pos"), ("pos+ner", "pos"), ("pos+all", "all")]


def test_without_a_task_alone_there_is_no_difference():
    tables = {
        run: table for run, table in study(np.random.default_rng(1), 1, 30).items() if run.mixture != "ner"
    }
    differences = shared(tables, 50).loc["pos+ner", "difference"]
    assert differences.isna().to_dict() == {"pos": False, "ner": True, "mean": True}


def test_gains_between_pairs_leave_out_groups_and_other_ways_of_training():
    tables = study(np.random.default_rng(3), 2, 30, alone=(0.8, 0.6), joint=(0.7, 0.7))
    for mixture, method in (("pair", "tuned"), ("pos+ner", "frozen")):  # a group of two; no plain training
        for seed in (0, 1):
            tables[Run("m", mixture, TASKS, method, seed)] = tables[Run("m", "pos+ner", TASKS, "tuned", 1)]
    found = between_pairs(shared(tables, 50).reset_index(drop=True))
    assert found[["mixture", "method", "source", "target"]].to_numpy().tolist() == [
        ["pos+ner", "tuned", "ner", "pos"], ["pos+ner", "tuned", "pos", "ner"],
    ]  # fmt: skip
    np.testing.assert_allclose(found["value"] - found["alone"], found["difference"])


@pytest.mark.thorough
@pytest.mark.parametrize(("seeds", "spread"), [(1, 0.0), (3, 0.05)])
def test_p_keeps_its_level_and_intervals_cover(seeds, spread):
    """Ties, of which there are many, count against significance."""
    rng = np.random.default_rng(2)
    tables = (shared(study(rng, seeds, 60, spread), 150, seed=number) for number in range(250))
    frame = pd.DataFrame([table.loc[("pos+ner", "pos")] for table in tables])
    p = frame["p_value" if seeds == 1 else "p_seeds"]
    assert 0.005 <= (p < 0.05).mean() <= 0.09
    assert 0.91 <= ((frame["ci_low"] <= 0) & (frame["ci_high"] >= 0)).mean() <= 0.99
