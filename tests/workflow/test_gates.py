"""Gates of a tiny study: heads that are kept, models and roles that are left, exports."""

import itertools
import json
import re

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import cli
from headspec.atlas.attended import attended
from headspec.errors import HeadspecError
from headspec.models import devices
from headspec.models.batching import Examples
from headspec.models.export.folder import opened_onnx
from headspec.models.multitask import MultiTask
from headspec.statistics.atlas.roles import one_role
from support.running import every_stage
from support.running.every_stage import PRUNING_METHODS
from support.running.studies import HEADS, LAYERS, Folder, tokenizer

pytestmark = pytest.mark.thorough

RUN = "runs/bert/tone+topic/tuned/seed0"
TASKS = {"shared": {"all"}, "per_task": {"tone", "topic"}}
#: models that `subset` keeps: the scope, and the task of the heads
SAVED = pytest.mark.parametrize(("scope", "of"), [("shared", "all"), ("per_task", "topic")])


def table(study: Folder, name: str) -> pd.DataFrame:
    return pd.read_parquet(study.results / RUN / f"{name}.parquet")


def last(study: Folder, run: str) -> pd.DataFrame:
    """The gates that a pruned run ends with."""
    gates = table(study, f"gates/{run}/gates")
    return gates[gates["step"] == gates["step"].max()].fillna({"task": "all"})


def test_every_budget_keeps_its_number_of_heads(every_stage_finished):
    for method, scope in itertools.product(PRUNING_METHODS, TASKS):
        gates = last(every_stage_finished, f"{method}/{scope}/0.5")
        assert {*gates["task"]} == TASKS[scope] and len(gates) == len(TASKS[scope]) * LAYERS * HEADS
        assert gates["kept"].sum() == 4 * len(TASKS[scope]), method
    assert last(every_stage_finished, "whole/shared/1")["kept"].all()
    # heads of "fresh" are those of its source
    source, fresh = (last(every_stage_finished, f"{method}/per_task/0.5") for method in ("subset", "fresh"))
    assert fresh["kept"].tolist() == source["kept"].tolist()


def test_gates_are_recorded_while_they_learn_once_for_all_numbers_of_heads(every_stage_finished):
    learnt, at_once = (
        table(every_stage_finished, f"gates/{method}/shared/0.5/gates") for method in ("l0", "ablation")
    )
    assert learnt["step"].nunique() > 5 and learnt["open_probability"].between(0, 1).all()
    assert at_once["step"].nunique() == 1 and at_once["open_probability"].isna().all()
    assert learnt["step"].max() == at_once["step"].max()
    half, left = (last(every_stage_finished, f"l0/shared/{kept}") for kept in ("0.5", "open"))
    assert half["open_probability"].tolist() == left["open_probability"].tolist()


def test_examples_that_rank_heads_do_not_judge_them(every_stage_finished):
    plain, ranked = (
        table(every_stage_finished, f"gates/{method}/shared/0.5/evaluation")
        for method in ("subset", "ablation")
    )
    heads = table(every_stage_finished, "atlas/ablation").query("measure == 'ablation'")
    for task, of_task in plain.groupby("task"):
        rest = ranked[ranked["task"] == task]
        half = heads.query("task == @task and fold % 2 == 0 and layer == 0 and head == 0")["n"].sum()
        assert len(of_task) - len(rest) == half == 20
        assert {*rest["example"]} < {*of_task["example"]}


def saved(study: Folder, scope: str, task: str) -> tuple[MultiTask, np.ndarray]:
    """The model that `subset` has left, and the heads that it keeps for a task."""
    kept = last(study, f"subset/{scope}/0.5").query("task == @task")["kept"]
    model = MultiTask.load(study.results / RUN / "gates/subset" / scope / "0.5/model")
    return model, kept.to_numpy().reshape(LAYERS, HEADS)


@SAVED
def test_an_exported_model_predicts_what_its_evaluation_says(
    every_stage_finished, tmp_path, monkeypatch, scope, of
):
    monkeypatch.chdir(every_stage_finished.path)
    run, tasks = f"results/tiny/{RUN}/gates/subset/{scope}/0.5", ["tone", "topic"] if of == "all" else [of]
    options = [] if of == "all" else ["--task", of]
    cli.app(["export", run, *options, "--out", str(tmp_path / "out")], standalone_mode=False)
    kept = saved(every_stage_finished, scope, of)[1]
    said = json.loads((tmp_path / "out" / "model.json").read_text())
    assert said["kept_heads"] == [np.flatnonzero(layer).tolist() for layer in kept]
    assert said["kept_for"] == (tasks if of == "all" else of)
    evaluation, logits = (
        pd.read_parquet(f"{run}/evaluation.parquet"),
        opened_onnx(tmp_path / "out" / "model.onnx"),
    )
    for task in tasks:
        examples = Examples(pd.read_parquet(f"results/tiny/tokens/bert/{task}/validation.parquet"))
        found = logits(examples.batch(np.arange(len(examples)), "cpu"))[task].argmax(axis=1)
        expected = evaluation[evaluation["task"] == task].set_index("example")["prediction"]
        assert found.tolist() == expected[examples.example].tolist()


def test_exports_that_are_refused(every_stage_finished, monkeypatch):
    monkeypatch.chdir(every_stage_finished.path)
    gates = f"results/tiny/{RUN}/gates"
    for arguments, message in {
        "subset/shared/0.5 --heads 4": "has its own number; remove --heads",
        "subset/shared/0.5 --task tone": "keeps the same heads for all tasks; remove --task",
        "subset/per_task/0.5": "--task: missing; the run has tone, topic",
        "subset/per_task/0.5 --task tonic": "the run has tone, topic. Did you mean 'topic'?",
        "l0/shared/0.5": "no model; add 'l0' to gates.keep_models and run snakemake gates",
        "subset/shared/0.6": f"Did you mean '{gates}/subset/shared/0.5'?",
    }.items():
        with pytest.raises(HeadspecError, match=re.escape(message)):
            cli.app(["export", *f"{gates}/{arguments}".split()], standalone_mode=False)
    assert not (every_stage_finished.results / "export").exists()


@SAVED
def test_roles_are_looked_for_with_the_other_heads_closed(every_stage_finished, scope, of):
    model, kept = saved(every_stage_finished, scope, of)
    results = every_stage_finished.results
    sentences = pd.read_parquet(results / "atlas/treebank.parquet")
    folder = results / RUN / "gates/subset" / scope / "0.5/atlas" / of
    found = pd.read_parquet(folder / "attended.parquet")
    for gates, same in ((torch.tensor(kept).float(), True), (None, False)):
        model.gates.values = gates
        device = devices.prepare("fp32", 1, 1, 0)
        expected = attended(model, tokenizer(), sentences, 50, device)[0]
        expected = expected.sort_values(["sentence", "layer", "head"])
        assert all(map(np.array_equal, found["words"], expected["words"])) == same
    heads = pd.read_parquet(results / "tables/kept_roles.parquet").fillna({"task": "all"})
    rows = heads.query("way == 'subset' and scope == @scope and fraction == 0.5 and task == @of")
    before, after = (
        one_role(pd.read_parquet(path / "roles.parquet"))["role"]
        for path in (results / RUN / "atlas", folder)
    )
    assert rows["role"].tolist() == before.tolist()
    assert rows["role_after"].tolist() == after.where(kept.ravel(), "none").tolist()


def test_no_model_outlives_its_gates(every_stage_finished, tmp_path):
    study = every_stage_finished.copy(tmp_path / "study")
    study.set("gates.keep_models", [])
    study.set("gates.epochs", 2)
    folder = study.results / RUN / "gates/subset/shared/0.5"
    assert (folder / "model").exists()
    study.snakemake(str((folder / "gates.parquet").relative_to(study.path)))
    assert not (folder / "model").exists()


def test_rankings_need_no_runs_of_the_atlas(tmp_path):
    """Keys of `atlas` may be meant for the runs that gates prune."""
    study = every_stage.new(tmp_path / "study")
    study.set("methods", ["tuned", "iat", "gates"])
    study.set("atlas", {"methods": ["iat"], "examples": 40})
    assert study.plan("gates").rules["ablation"] == 1
