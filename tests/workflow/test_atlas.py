"""Snakemake on the head atlas of a tiny study: results, effects of changes, errors before any job."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headspec import tables
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.heads.ranking import top_heads
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from support.running.edits import constant
from support.running.studies import CONFIG, HEADS, LAYERS, Folder, trees

pytestmark = pytest.mark.slow

LEARNT = ["l0", "subset"]
RANKINGS = ["importance", "relevance", "confidence", "ablation", "rescored", *LEARNT]
ORDERS = {"top", "bottom"}
STUDY: dict[str, Any] = CONFIG | {
    "methods": ["tuned", "frozen", "atlas"],
    "training": CONFIG["training"] | {"epochs": 1},
    "similarity": {"measures": []},
    "figures": {"dpi": 60, "formats": ["png"]},
    "atlas": {
        "treebank": {"source": "texts/trees.conllu"},
        "examples": 40,
        "rankings": RANKINGS,
        "bottom": True,
        "fractions": [0.25, 0.5],
        "draws": 2,
    },
    "gates": {"pruning_methods": ["random"]},
}
FIGURES = {f"{kind}.bert.tone+topic.{method}" for method in ("tuned", "frozen")
           for kind in ("heads", "ablation", "ranked", "agreement", "confidence", "differences")}  # fmt: skip


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        trees(path / "texts" / "trees.conllu")
        folder.write(STUDY)
        folder.snakemake("atlas")

    return Folder(shared("atlas", fill))


@pytest.fixture
def copy(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "copy")


def test_every_table_and_figure_is_there(finished):
    made = {path.stem: pd.read_parquet(path) for path in (finished.results / "tables").glob("*.parquet")}
    heads = made["heads"]
    of_measure = heads.groupby("measure").size()
    assert (of_measure == 2 * 2 * 2 * LAYERS * HEADS).all()  # methods, seeds, tasks
    assert {"importance", "relevance", "confidence", "ablation", "ablation_size", "entropy"} <= {
        *of_measure.index
    }
    assert (heads["ci_low"] <= heads["value"]).all() and (heads["n"] == 40).all()
    roles = made["head_roles"]
    assert len(roles) == 4 * LAYERS * HEADS and set(roles["role"]) <= {
        "none",
        "positional",
        "syntactic",
        "rare word",
    }
    curves = made["pruning_curves"]
    assert set(curves["ranking"]) == {*RANKINGS, "importance_all", "random"}
    assert set(curves["fraction"]) == {0.0, 0.25, 0.3, 0.5, 1.0}
    assert (curves.groupby("order").size() == len(curves) / 2).all() and set(curves["order"]) == ORDERS
    assert set(made["pruning_areas"]["order"]) == ORDERS
    assert set(made["ranking_dissociation"]["ranking"]) == set(RANKINGS)
    assert len(made["agreement"]) and len(made["single_heads"]) == 2 * 2 * LAYERS * HEADS
    differences = made["task_differences"]
    assert set(differences["task"]) == {"tone"} and set(differences["against"]) == {"topic"}
    assert differences.groupby(["method", "measure"]).size().tolist() == [LAYERS * HEADS] * 2 * 4
    belief = made["belief"]
    assert len(belief) == 2 * 3 * (len(RANKINGS) + 2)  # methods, tasks and their mean
    learnt = belief[belief["ranking"].isin(LEARNT)]
    assert learnt["area"].notna().all() and learnt["ablation_spearman"].isna().all()
    assert not {*LEARNT} & {*made["agreement"]["measure_a"], *made["agreement"]["measure_b"]}
    assert "budgets" not in made
    drawn = {path.stem for path in (finished.results / "figures" / "atlas").glob("*.png")}
    assert drawn == FIGURES | {"change.bert.tone+topic.tuned", "believe"}


@pytest.mark.parametrize(("method", "kept"), [("l0", "open"), ("subset", "0.7")])
def test_learnt_gates_prune_as_they_rank(finished, method, kept):
    """Of every example, the prediction without the heads whose own gates have the largest scores."""
    run = finished.results / "runs/bert/tone+topic/tuned/seed0"
    gates = pd.read_parquet(run / f"gates/{method}/per_task/{kept}/gates.parquet").query("task == 'tone'")
    last = gates[gates["step"] == gates["step"].max()]
    scores = last.pivot(index="layer", columns="head", values="score").to_numpy()
    tokens = tables.read(finished.results / "tokens/bert/tone/validation.parquet")
    mask = Mask("tone", "top", 0.5, None, top_heads(scores, LAYERS * HEADS // 2))
    examples = Examples(tokens)
    found = predictions(MultiTask.load(run / "model"), {"tone": examples}, [mask], Device("cpu", None))
    expected = pd.Series(found["tone"][0].filled(), examples.example)
    of_method = pd.read_parquet(run / "atlas/cumulative.parquet").query(
        "ranking == @method and task == 'tone' and order == 'top' and fraction == 0.5"
    )
    assert len(of_method) == 40
    assert of_method["prediction"].to_numpy() == pytest.approx(expected.loc[of_method["example"]].to_numpy())


def test_a_finished_atlas_has_nothing_to_do(finished):
    assert finished.plan("atlas").rules == {}


@pytest.mark.parametrize(
    ("key", "value", "stages"),
    [
        ("atlas.draws", 3, {"cumulative", "rankings", "belief"}),
        ("atlas.bottom", False, {"cumulative", "rankings", "belief"}),
        ("atlas.rankings", RANKINGS[:-1], {"cumulative", "rankings", "belief"}),
        ("gates.epochs", 3, {"learn_gates", "pruned_run", "cumulative", "rankings", "belief"}),
        ("gates.penalty", 0.1, {"learn_gates", "pruned_run", "cumulative", "rankings", "belief"}),
        ("gates.kept", [0.5], set()),
        ("gates.pruning_methods", ["subset", "random"], set()),
        ("atlas.treebank.source", "texts/more.conllu", {"treebank", "attended", "roles", "heads", "belief"}),
        ("atlas.relevance", "attnlrp", {"relevance", "cumulative", "heads", "rankings", "belief"}),
        ("dissociation.confidence", 0.9, {"heads", "single_heads", "rankings", "belief"}),
    ],
)
def test_a_setting_reaches_its_stages_only(copy, key, value, stages):
    trees(copy.path / "texts" / "more.conllu", 55)
    copy.set(key, value)
    rules = copy.plan("atlas").rules
    assert {rule for rule in rules if not rule.startswith("figure_")} - {"atlas"} == stages


def test_an_edit_of_the_roles_reaches_their_statistics_only(copy):
    constant("headspec/statistics/atlas/roles.py")(copy)
    rules = copy.plan("atlas").rules
    assert {rule for rule in rules if not rule.startswith("figure_")} - {"atlas"} == {
        "roles",
        "heads",
        "belief",
    }


HEADS_PY = "workflow/headspec/config/measures/heads.py"
LAST = '"resample_ablation": HeadMeasure("resampling ablation", "resample_ablation"),'
#: change of the registry of measures: the kinds of figures that are drawn again, and nothing else is made
REGISTERED = {
    "a measure that no study names": ('"new": HeadMeasure("new", "new"),', "", set()),
    "a label": ("", "relevance (LRP)", {"ranked", "agreement", "differences", "believe"}),
    "a label that few figures show": ("", "ablation, either sign", {"agreement", "differences"}),
}


@pytest.mark.parametrize(("entry", "label", "redrawn"), REGISTERED.values(), ids=REGISTERED)
def test_an_entry_of_the_registry_reaches_the_figures_that_show_it(copy, entry, label, redrawn):
    copy.replace(HEADS_PY, LAST, LAST + entry)
    copy.replace(HEADS_PY, label, f"{label} of heads" if label else "")
    rules = set(copy.plan("atlas").rules) - {"atlas"}
    assert rules == {f"figure_atlas_{kind}" for kind in redrawn}


def test_a_measure_made_from_another_table_is_a_module_and_a_line(copy):
    copy.replace(
        HEADS_PY, LAST, LAST + '"last_layer": HeadMeasure("last layer", "last_layer", made_from="relevance"),'
    )
    module = copy.path / "workflow" / "headspec" / "atlas" / "last_layer.py"
    module.write_text(
        "def measure(heads):\n"
        "    heads = heads[heads['measure'] == 'importance']\n"
        "    return heads.assign(value=1.0 * heads['layer'])\n"
    )
    copy.set("atlas.rankings", [*RANKINGS, "last_layer"])
    copy.snakemake("results/tiny/tables/belief.parquet", "results/tiny/figures/atlas/believe.png")
    heads = pd.read_parquet(copy.results / "tables" / "heads.parquet").query("measure == 'last_layer'")
    assert len(heads) == 4 * 2 * LAYERS * HEADS and (heads["value"] == heads["layer"]).all()
    agreement = pd.read_parquet(copy.results / "tables" / "agreement.parquet")
    assert "last_layer" in set(agreement["measure_a"])
    assert "last_layer" in set(pd.read_parquet(copy.results / "tables" / "belief.parquet")["ranking"])
    constant("headspec/atlas/last_layer.py")(copy)
    assert {"derived", "cumulative", "heads"} <= set(copy.plan("atlas").rules)
    copy.set("atlas.rankings", [*RANKINGS, "last-layer"])
    assert "Did you mean 'last_layer'?" in copy.snakemake("atlas", fails=True)


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("atlas.rankings", ["importanse"], "atlas.rankings.0: got 'importanse'"),
        ("atlas.mixtures", ["tone+topik"], "atlas.mixtures.0: no mixture 'tone+topik'"),
        ("atlas.treebank.source", "texts/tree.conllu", "atlas.treebank.source"),
        ("atlas.treebank.source", "texts/broken.conllu", "cycle"),
    ],
)
def test_mistakes_are_refused_before_any_job(copy, key, value, message):
    text = (copy.path / "texts" / "trees.conllu").read_text()
    (copy.path / "texts" / "broken.conllu").write_text(text.replace("\t3\tdep", "\t1\tdep", 1))
    copy.set(key, value)
    output = copy.snakemake("atlas", fails=True)
    assert message in output and "started" not in output


def test_too_few_sentences_for_roles_are_refused_before_any_job(copy):
    """Without a treebank; a text is one sentence here."""
    copy.set("atlas.treebank", None)
    for task in ("tone", "topic"):
        copy.set(f"tasks.{task}.validation_examples", 24)
    output = copy.snakemake("atlas", fails=True)
    assert "the validation texts, which have 48 sentences; expected at least 50" in output
    assert "started" not in output
    copy.set("tasks.topic.validation_examples", 26)
    assert copy.plan("atlas").rules["treebank"] == 1
