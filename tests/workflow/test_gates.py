"""Snakemake on the gates of a tiny study: results, effects of changes, errors before any job."""

from __future__ import annotations

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import cli
from headspec.atlas.attended import attended
from headspec.cost import graph
from headspec.errors import HeadspecError
from headspec.models import devices
from headspec.models.batching import Examples
from headspec.models.export.onnx_file import opened
from headspec.models.multitask import MultiTask
from headspec.statistics.atlas.roles import one_role
from support.running.edits import constant
from support.running.studies import CONFIG, HEADS, LAYERS, Folder, tokenizer, trees

pytestmark = pytest.mark.slow

PRUNING_METHODS = ["importance", "rescored", "l0", "subset", "dynamic", "fresh", "ablation"]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "precision": "fp32",
    "methods": ["tuned", "gates"],
    "mixtures": {"pairs": ["tone", "topic"]},
    "training": CONFIG["training"] | {"epochs": 1},
    "figures": {"dpi": 60, "formats": ["png"]},
    "atlas": {"examples": 40, "draws": 2, "treebank": {"source": "texts/trees.conllu"}},
    "gates": {
        "pruning_methods": PRUNING_METHODS,
        "scope": ["shared", "per_task"],
        "kept": [0.25, 0.5],
        "epochs": 1,
        "penalty": 0.05,
        "keep_models": ["whole", "subset"],
    },
}
RUN = "runs/bert/tone+topic/tuned/seed0"
SETS = 2
#: budgets of a run: whole, two of every pruning method, and the open heads of two pruning methods
BUDGETS = 1 + 2 * len(PRUNING_METHODS) + 2


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        trees(path / "texts" / "trees.conllu")
        folder.write(STUDY)
        folder.snakemake("gates")

    return Folder(shared("gates", fill))


@pytest.fixture
def copy(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "copy")


def of_run(study: Folder, method: str, scope: str, kept: str, name: str) -> pd.DataFrame:
    return pd.read_parquet(study.results / RUN / "gates" / method / scope / kept / f"{name}.parquet")


def test_every_budget_keeps_its_number_of_heads(finished):
    for method in PRUNING_METHODS:
        for scope, tasks in (("shared", {"all"}), ("per_task", {"tone", "topic"})):
            for kept, number in (("0.25", 2), ("0.5", 4)):
                gates = of_run(finished, method, scope, kept, "gates")
                last = gates[gates["step"] == gates["step"].max()]
                assert {*last["task"].fillna("all")} == tasks
                assert len(last) == len(tasks) * LAYERS * HEADS
                assert last["kept"].sum() == number * len(tasks), (method, scope, kept)
    assert of_run(finished, "whole", "shared", "1", "gates")["kept"].all()


def test_gates_of_a_run_are_recorded_while_they_learn(finished):
    learnt, at_once = (of_run(finished, method, "shared", "0.5", "gates") for method in ("l0", "importance"))
    assert learnt["step"].nunique() > 5 and learnt["open_probability"].between(0, 1).all()
    assert at_once["step"].nunique() == 1 and at_once["open_probability"].isna().all()
    assert learnt["step"].max() == at_once["step"].max()
    kept = [of_run(finished, "l0", "shared", k, "gates") for k in ("0.25", "0.5")]
    first, second = (frame[frame["step"] == frame["step"].max()] for frame in kept)
    assert not (first["kept"].to_numpy() & ~second["kept"].to_numpy()).any()  # gates learnt once
    assert first["open_probability"].to_numpy().tolist() == second["open_probability"].to_numpy().tolist()


def test_examples_that_rank_heads_do_not_judge_them(finished):
    plain, ranked = (
        of_run(finished, method, "shared", "0.5", "evaluation") for method in ("subset", "ablation")
    )
    heads = pd.read_parquet(finished.results / RUN / "atlas/ablation.parquet").query("measure == 'ablation'")
    for task, of_task in plain.groupby("task"):
        rest = ranked[ranked["task"] == task]
        half = heads.query("task == @task and fold % 2 == 0 and layer == 0 and head == 0")["n"].sum()
        assert len(of_task) - len(rest) == half == 20
        assert {*rest["example"]} < {*of_task["example"]}


def test_heads_from_fresh_weights_are_those_of_the_source(finished):
    source, fresh = (of_run(finished, method, "per_task", "0.5", "gates") for method in ("subset", "fresh"))
    last = source[source["step"] == source["step"].max()]
    assert fresh["kept"].tolist() == last["kept"].tolist()


def saved(study: Folder, scope: str, kept: str, of: str) -> tuple[MultiTask, np.ndarray]:
    """The model that `subset` has left, and the heads that a set keeps."""
    folder = study.results / RUN / "gates/subset" / scope / kept
    gates = pd.read_parquet(folder / "gates.parquet")
    last = gates[(gates["step"] == gates["step"].max()) & (gates["task"].fillna("all") == of)]
    return MultiTask.load(folder / "model"), last["kept"].to_numpy().reshape(LAYERS, HEADS)


def test_only_the_named_ways_keep_their_models(finished):
    models = (finished.results / RUN / "gates").glob("*/*/*/model/model.safetensors")
    assert {path.parts[-5] for path in models} == {"whole", "subset"}


@pytest.mark.parametrize(
    ("scope", "of", "options"), [("shared", "all", []), ("per_task", "topic", ["--task", "topic"])]
)
def test_an_exported_model_predicts_what_its_evaluation_says(copy, monkeypatch, scope, of, options):
    monkeypatch.chdir(copy.path)
    run = f"results/tiny/{RUN}/gates/subset/{scope}/0.5"
    cli.app(["export", run, *options], standalone_mode=False)
    out = Path(run.replace("/runs/", "/export/"), f"{of}-4")
    kept = saved(copy, scope, "0.5", of)[1]
    said = json.loads((out / "model.json").read_text())
    assert said["kept_heads"] == [np.flatnonzero(layer).tolist() for layer in kept]
    assert said["kept_for"] == (of if options else ["tone", "topic"])
    evaluation, logits = pd.read_parquet(f"{run}/evaluation.parquet"), opened(out / "model.onnx")
    for task in [of] if options else ["tone", "topic"]:
        examples = Examples(pd.read_parquet(f"results/tiny/tokens/bert/{task}/validation.parquet"))
        found = logits(examples.batch(np.arange(len(examples)), "cpu"))[task].argmax(axis=1)
        expected = evaluation[evaluation["task"] == task].set_index("example")["prediction"]
        assert found.tolist() == expected[examples.example].tolist()


def test_exports_that_are_refused(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    gates = f"results/tiny/{RUN}/gates"
    wrong = {
        ("subset/shared/0.5", "--heads", "4"): "has its own number, expected no --heads",
        ("subset/shared/0.5", "--task", "tone"): "keeps the same heads for all, expected no --task",
        ("subset/per_task/0.5",): "--task: missing; the run has tone, topic",
        ("subset/per_task/0.5", "--task", "tonic"): "the run has tone, topic. Did you mean 'topic'?",
        ("l0/shared/0.5",): "no model; add 'l0' to gates.keep_models and run snakemake gates",
        ("subset/shared/0.6",): f"Did you mean '{gates}/subset/shared/0.5'?",
    }
    for (run, *options), message in wrong.items():
        with pytest.raises(HeadspecError, match=re.escape(message)):
            cli.app(["export", f"{gates}/{run}", *options], standalone_mode=False)
    assert not (finished.results / "export").exists()


@pytest.mark.parametrize(("scope", "of"), [("shared", "all"), ("per_task", "topic")])
def test_roles_are_looked_for_with_the_other_heads_closed(finished, scope, of):
    model, kept = saved(finished, scope, "0.25", of)
    sentences = pd.read_parquet(finished.results / "atlas/treebank.parquet")
    path = finished.results / RUN / "gates/subset" / scope / "0.25/atlas" / of / "attended.parquet"
    found = pd.read_parquet(path)
    for gates, same in ((torch.tensor(kept).float(), True), (None, False)):
        model.gates.values = gates
        expected = attended(model, tokenizer(), sentences, 2000, devices.prepare("fp32", 1, 1, 0))[0]
        expected = expected.sort_values(["sentence", "layer", "head"])
        assert all(map(np.array_equal, found["words"], expected["words"])) == same


def test_roles_before_and_after(finished):
    heads, counts = (
        pd.read_parquet(finished.results / f"tables/{name}.parquet") for name in ("kept_roles", "role_counts")
    )
    of_runs = heads.groupby(["way", "scope", "fraction", heads["task"].fillna("all")], dropna=False)
    assert len(of_runs) == BUDGETS + 2 * BUDGETS and (of_runs.size() == LAYERS * HEADS).all()
    before = one_role(pd.read_parquet(finished.results / RUN / "atlas/roles.parquet"))["role"]
    for (method, scope, fraction, of), rows in of_runs:
        assert rows["role"].tolist() == before.tolist()
        if method not in ("whole", "subset"):
            assert rows["role_after"].isna().all()
            continue
        folder = finished.results / RUN / f"gates/{method}/{scope}/{fraction:g}"
        roles = one_role(pd.read_parquet(folder / f"atlas/{of}/roles.parquet"))["role"]
        assert rows["role_after"].tolist() == roles.where(rows["kept"].to_numpy(), "none").tolist()
    assert {*counts["role"]} == {"positional", "syntactic", "rare word"}
    assert len(counts) == 3 * len(of_runs)
    whole = counts[counts["way"] == "whole"]
    assert (whole["before"] == whole["kept"]).all() and whole["p_value"].isna().all()
    assert (finished.results / "figures/gates/kept_roles.bert.tone+topic.tuned.png").exists()


def budgets(study: Folder, *targets: str) -> dict[str, int]:
    """The jobs that would run, but for statistics and figures."""
    rules: Counter[str] = Counter()
    for rule, n in study.plan(*(targets or ("gates",))).rules.items():
        rules[graph.stage(rule)] += n
    stages = ("train", "importance", "ablation", "learn_gates", "pruned_run")
    return {stage: rules[stage] for stage in stages if rules[stage]}


def test_nothing_is_left_to_do(finished):
    assert finished.plan("gates").rules == {}


def test_no_model_outlives_its_gates(copy):
    copy.set("gates.keep_models", [])
    copy.set("gates.epochs", 2)
    folder = copy.results / RUN / "gates/subset/shared/0.5"
    copy.snakemake(str((folder / "gates.parquet").relative_to(copy.path)))
    assert not (folder / "model").exists()


OPEN_ENDED = 2  # l0, dynamic
#: edit: budgets of each run, and open-ended pruning methods whose gates learn again
EDITS = {
    "gates.penalty": (0.04, 3 * OPEN_ENDED, OPEN_ENDED),
    "gates.rescorings": (3, 2, 0),
    "gates.learning_rate": (0.2, 3 * OPEN_ENDED + 2 + 2, OPEN_ENDED),  # fresh takes the heads of subset
    "gates.kept": ([0.25, 0.5, 0.75], len(PRUNING_METHODS), 0),
    "gates.epochs": (3, BUDGETS, OPEN_ENDED),
    "gates.source": ("l0", 2, 0),
}


#: edit: rules that run
OF_ROLES = {"attended", "roles", "attended_after", "roles_after", "kept_roles", "figure_gates_kept_roles"}
ROLES_AGAIN = {
    "atlas.treebank.source": ("texts/more.conllu", {"treebank", *OF_ROLES}),
    "atlas.sentences": (55, OF_ROLES),
    "gates.keep_models": (["subset"], {"kept_roles", "figure_gates_kept_roles"}),
}


@pytest.mark.parametrize("key", ROLES_AGAIN)
def test_an_edit_of_roles_prunes_and_trains_nothing(copy, key):
    value, rules = ROLES_AGAIN[key]
    trees(copy.path / "texts/more.conllu", 70)
    copy.set(key, value)
    assert {*copy.plan("gates").rules} - {"gates"} == rules


def test_a_model_that_is_to_be_kept_is_trained_again_alone(copy):
    copy.set("gates.keep_models", ["whole", "subset", "importance"])
    plan = copy.plan("gates").rules
    assert (plan["pruned_run_and_keep"], plan["attended_after"]) == (2 * SETS, 2 * (1 + 2))
    assert not {"pruned_run", "train", "learn_gates", "attended"} & set(plan)


@pytest.mark.parametrize("key", EDITS)
def test_an_edit_reaches_the_budgets_that_use_it(copy, key):
    value, of_run, learnt = EDITS[key]
    copy.set(key, value)
    expected = {"pruned_run": SETS * of_run} | ({"learn_gates": SETS * learnt} if learnt else {})
    assert budgets(copy) == expected


@pytest.mark.parametrize(
    ("module", "rules"),
    [
        ("headspec/training/pruned/gated.py", {"pruned_run", "learn_gates"}),
        ("headspec/gates/subset.py", {"pruned_run", "learn_gates"}),
        ("headspec/config/pruning_methods.py", set()),
        ("headspec/atlas/ablation.py", {"ablation", "pruned_run"}),
    ],
)
def test_an_edited_module_reaches_the_stages_that_import_it(copy, module, rules):
    constant(module)(copy)
    assert {*budgets(copy)} == rules


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("gates.pruning_methods", ["subsets"], "gates.pruning_methods.0: got 'subsets'"),
        ("gates.keep_models", ["subste"], "gates.keep_models.0: got 'subste'"),
        ("gates.keep_models", ["subste"], "Did you mean 'subset'?"),
        (
            "gates.keep_models",
            ["random"],
            "gates.keep_models.0: got 'random', expected it in gates.pruning_methods",
        ),
        ("gates.kept", [1.0], "gates.kept.0"),
        ("gates.kept", [0.99], "gates.kept.0: got 0.99, all of the 8 heads of models.bert"),
        ("gates.kept", [0], "gates.kept.0"),
        ("gates.mixtures", ["tone+topik"], "gates.mixtures.0: no mixture 'tone+topik'"),
        ("gates.penalty", 0, "gates.penalty"),
        ("gates.source", "random", "gates.source: got 'random'"),
        ("methods", ["gates"], "methods: got gates, expected tuned as well"),
    ],
)
def test_mistakes_are_refused_before_any_job(copy, key, value, message):
    copy.set(key, value)
    output = copy.snakemake("gates", fails=True)
    assert message in output and "started" not in output


def test_rankings_need_no_runs_of_the_atlas(tmp_path):
    """Keys of `atlas` may be meant for the runs that gates prune."""
    study = Folder.new(tmp_path / "study")
    study.write(STUDY | {"atlas": {"methods": ["iat"], "examples": 40}})
    assert study.plan("gates").rules["ablation"] == 1


def test_a_ranking_that_the_atlas_does_not_measure_is_refused(copy):
    copy.set("gates.pruning_methods", ["mean_ablation"])
    copy.set("atlas.rankings", ["importance"])
    expected = (
        "gates.pruning_methods.0: got 'mean_ablation', expected it in atlas.rankings, which measures it"
    )
    assert expected in copy.snakemake("gates", fails=True)


def test_a_source_that_nothing_uses_is_refused(copy):
    copy.set("gates.pruning_methods", ["importance"])
    copy.set("gates.source", "l0")
    assert "gates.source: not used; expected" in copy.snakemake("gates", fails=True)
