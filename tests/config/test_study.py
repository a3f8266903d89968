"""A study: the values that its config accepts, and the runs that it plans."""

import copy
import itertools
import math
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from headspec.config.loading import load
from headspec.config.sections.heads import Pruning
from headspec.config.study import Study, plain
from headspec.tasks import data
from support.configs import VALID
from support.running.studies import changed


def study(changes: dict[str, Any] | None = None) -> Study:
    """The small study with some changes."""
    return load(changed(VALID, changes or {}))


def test_loading_keeps_the_config_unchanged_and_accepts_a_written_study() -> None:
    config = changed(VALID, {"training.learning_rate": "2e-5"})
    before = copy.deepcopy(config)
    loaded = load(config)
    assert config == before
    tasks = {name: task.model_dump(exclude_unset=True) for name, task in loaded.tasks.items()}
    assert load(plain(loaded) | {"tasks": tasks}) == loaded


def test_numbers_may_be_text_and_names_numbers() -> None:
    found = study({"training.learning_rate": "2e-5", "importance.samples": "1e4", "seeds": ["3", 1.0]})
    assert (found.training.learning_rate, found.importance.samples) == (2e-5, 10_000)
    assert found.seeds == [3, 1]
    config = changed(VALID, {"study": 7, "mixtures.single": [2020]})
    config["tasks"][2020] = {"source": "x"}
    assert load(config).study == "7"
    assert load(config).runs[-1].path == "minilm/2020/single/seed1"


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("{0: neg, 1: pos}", {"0": "neg", "1": "pos"}),
        ("{0: neg, 1: pos, 2: pos}", {"0": "neg", "1": "pos", "2": "pos"}),
        ("{true: pos, false: neg}", {"true": "pos", "false": "neg"}),
        ("{0: no, 1: yes}", {"0": "false", "1": "true"}),
        ("[neg, pos]", {"neg": "neg", "pos": "pos"}),
        ("[1, 0]", {"1": "1", "0": "0"}),
        ("null", None),
    ],
)
def test_labels(written: str, labels: dict[str, str] | None) -> None:
    task = study({"tasks.sst2.labels": yaml.safe_load(written), "tasks.sst2.metrics": ["matthews"]}).tasks[
        "sst2"
    ]
    assert task.labels == labels
    assert list(task.labels or ()) == list(labels or ())  # the order of the classes


def test_the_second_of_listed_labels_is_the_class_of_f1() -> None:
    task = study({"tasks.sst2.labels": ["not_equivalent", "equivalent"]}).tasks["sst2"]
    assert data.reader(task.type).classes(task, pd.Series(["equivalent"])) == ["not_equivalent", "equivalent"]


def test_matthews_takes_any_number_of_classes_and_pairs_have_two() -> None:
    study({"tasks.sst2.labels": ["a", "b", "c"], "tasks.sst2.metrics": ["matthews"]})
    study({"tasks.agpair.metrics": ["f1", "accuracy"]})


@pytest.mark.parametrize(
    "source",
    ["package:a", "package:a.b/c.csv", "hub:a/b", "hub:a/b@refs/pr/4", "../data/x", "/d/a:b", "d.csv"],
)
def test_sources(source: str) -> None:
    assert study({"tasks.qnli.source": source}).tasks["qnli"].source == source


def test_default_metrics() -> None:
    tasks = study().tasks
    assert tasks["qnli"].metrics == ["accuracy"]
    assert tasks["stsb"].metrics == ["spearman", "pearson"]


@pytest.mark.parametrize("width", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("draws", [2, 10, 100])
def test_draws_of_a_wanted_width_have_just_enough_examples(width, draws):
    def widest(examples):  # interval of the mean over all draws at an accuracy of a half
        return 2 * 1.96 * (0.25 / (draws * examples)) ** 0.5

    pruning = Pruning(draws=draws, draw_width=width)
    assert widest(pruning.draw_examples) <= width < widest(pruning.draw_examples - 1 or 0.1)


# -- runs ----------------------------------------------------------------------------------------


def test_runs() -> None:
    planned = study({"methods": ["tuned", "frozen"]}).runs
    mixed = [f"{mixture}/{method}" for mixture in ("sst2+qnli", "all") for method in ("tuned", "frozen")]
    expected = [f"minilm/{run}/seed{seed}" for run in [*mixed, "stsb/single"] for seed in (0, 1)]
    assert [run.path for run in planned] == expected
    assert planned[4].tasks == ("sst2", "qnli", "agnews") and planned[-1].tasks == ("stsb",)


@given(st.permutations(["sst2", "qnli", "agnews", "agpair", "stsb"]), st.integers(2, 5))
def test_mixtures_are_named_in_the_order_of_the_tasks(order: list[str], size: int) -> None:
    planned = study({"mixtures.pairs": order[:size], "mixtures.groups.all": order})
    chosen = [task for task in planned.tasks if task in order[:size]]
    pairs = {f"{a}+{b}": (a, b) for a, b in itertools.combinations(chosen, 2)}
    assert planned.mixture_tasks == pairs | {"all": tuple(planned.tasks)}
    assert len({run.path for run in planned.runs}) == len(planned.runs) == 2 * (math.comb(size, 2) + 1 + 1)


@pytest.mark.parametrize(
    ("measures", "alone"), [(["text"], ["stsb"]), (["cka"], ["sst2", "qnli", "agnews", "stsb"])]
)
def test_measures_that_compare_models_train_each_task_alone(measures: list[str], alone: list[str]) -> None:
    mixtures = {"pairs": ["sst2", "agnews", "qnli"], "single": ["stsb"]}
    runs = study({"mixtures": mixtures, "similarity.measures": measures}).runs
    assert [run.mixture for run in runs if run.method == "single" and run.seed == 0] == alone


def test_a_changed_copy_derives_its_own_values():
    first = study({})
    assert (
        set(first.tasks_by_mixture) >= set(first.tasks)
        and "tuned" in first.variants
        and first.compared_metrics
    )
    fewer = first.model_copy(update={"tasks": dict([*first.tasks.items()][:3])})
    assert set(fewer.compared_metrics) == set(fewer.tasks) == {*[*first.tasks][:3]}
    assert first.compared_metrics.keys() > fewer.compared_metrics.keys()


def test_runs_of_iat() -> None:
    """Each is compared with the plain training that it continues; the runs of IAP stay the same."""
    section = {"mixtures": ["all"], "controls": ["random", "lora"], "alphas": [0.3, 0.5], "deltas": [0.2]}
    planned = study({"iat": section | {"samplings": ["sqrt"]}, "methods": ["tuned", "iat"]})
    assert {
        (v.method, v.base, v.sampling, v.retraining, v.alpha, v.delta) for v in planned.variants.values()
    } == {
        ("tuned", "tuned", "proportional", None, None, None),
        ("iat", "tuned", "proportional", "top", 0.3, 0.1),
        ("iat-random", "tuned", "proportional", "random", 0.3, 0.1),
        ("lora", "tuned", "proportional", "lora", 0.3, 0.1),
        ("iat-alpha0.3-delta0.2", "tuned", "proportional", "top", 0.3, 0.2),
        ("iat-alpha0.5-delta0.1", "tuned", "proportional", "top", 0.5, 0.1),
        ("iat-alpha0.5-delta0.2", "tuned", "proportional", "top", 0.5, 0.2),
        ("tuned-sqrt", "tuned-sqrt", "sqrt", None, None, None),
        ("iat-sqrt", "tuned-sqrt", "sqrt", "top", 0.3, 0.1),
    }
    assert planned.runs == study().runs
    alone = [run.mixture for run in planned.iat_runs if run.method == "single" and run.seed == 0]
    assert alone == ["sst2", "qnli", "agnews"]
    assert len(planned.iat_runs) == 2 * (9 + 3) == len({run.path for run in planned.iat_runs})


def test_controls_of_a_sweep_and_rewarmed_ends() -> None:
    """Plain training does not depend on alpha; each delta and sampling has rewarmed rates of its own."""
    section = {"mixtures": ["all"], "controls": ["lora", "no-dropout"], "alphas": [0.5], "deltas": [0.2]}
    section |= {"sweep_controls": True, "rate": "rewarmed", "samplings": ["sqrt"]}
    planned = study({"iat": section, "methods": ["tuned", "iat"]})
    points = [(0.3, 0.1), (0.3, 0.2), (0.5, 0.1), (0.5, 0.2)]
    names = ["", "-alpha0.3-delta0.2", "-alpha0.5-delta0.1", "-alpha0.5-delta0.2"]
    owning = {(h + n, h, *at) for h in ("iat", "lora") for n, at in zip(names, points, strict=True)}
    deltas = ("", 0.1), ("-delta0.2", 0.2)
    plain = {(h + n, h, None, d) for h in ("no-dropout", "rewarmed") for n, d in deltas}
    sampled = {("iat-sqrt", "iat", 0.3, 0.1), ("rewarmed-sqrt", "rewarmed", None, 0.1)}
    bases = {("tuned", None, None, None), ("tuned-sqrt", None, None, None)}
    found = {
        (v.method, "iat" if v.retraining == "top" else v.retraining, v.alpha, v.delta)
        for v in planned.variants.values()
    }
    assert found == owning | plain | sampled | bases
