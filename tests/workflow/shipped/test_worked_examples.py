"""The worked examples of the docs, applied to a copy of the workflow and run."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from playwright import sync_api as playwright

from headspec.similarity.measures import cosine
from support.pages import blocks
from support.paths import ROOT
from support.running.studies import CONFIG, HEADS, LAYERS, SMALL, TONE, Folder, sentence

pytestmark = pytest.mark.slow

BLOCKS = [block for block in blocks(ROOT / "docs/code/extending.md") if block.title]
STUDY: dict[str, Any] = SMALL | {
    "seeds": [0, 1],
    "tasks": CONFIG["tasks"] | {"replies": {"source": "texts/replies.tsv", "type": "poisson"}},
    "mixtures": {"pairs": ["tone", "topic", "replies"]},
    "methods": ["tuned"],
    "training": CONFIG["training"] | {"epochs": 1},
    "similarity": {"measures": ["shared-importance", "layers"]},
    "atlas": {
        "mixtures": ["tone+topic"], "examples": 40, "rankings": ["importance", "gate_fisher"],
        "fractions": [0.5], "draws": 2,
    },
    "gates": {
        "mixtures": ["tone+topic"], "pruning_methods": ["importance", "each-layer"], "kept": [0.5],
        "epochs": 1,
    },
    "plugins": ["my_measures.py", "layers.py", "poisson"],
}  # fmt: skip
#: a measure of the trait
LAYERS_PY = """from headspec import plugins
from headspec.similarity.measures import cosine


@plugins.similarity_measure("layers", "layers", of="layer_importance")
def layers(a, b):
    return cosine(a["layer_importance"], b["layer_importance"])
"""
TARGETS = [f"results/tiny/{name}" for name in (
    "figures/overlap.png", "figures/similarity.bert.png", "figures/atlas/believe.png",
    "figures/atlas/ranked.bert.tone+topic.tuned.png", "tables/layers.parquet",
    "figures/gates/budgets.bert.tone+topic.tuned.png", "figures/matrix.bert.tone+replies.tuned.png",
    "tables/dissociation.parquet", "explorer.html",
)]  # fmt: skip


def prepare(path: Path) -> None:
    """Apply the examples, and write texts with a count: twice the number of bad words in them."""
    for block in BLOCKS:
        block.apply(path)
    (path / "layers.py").write_text(LAYERS_PY)
    rng = np.random.default_rng(0)
    counts = rng.integers(3, size=150)
    texts = [sentence(rng, *rng.choice(TONE["bad"], n, replace=False).tolist()) for n in counts]
    frame = pd.DataFrame({"text": texts, "label": 2 * counts})
    frame.to_csv(path / "texts" / "replies.tsv", sep="\t", index=False)


@pytest.fixture(scope="module")
def finished(finish) -> Folder:
    return finish("worked examples", STUDY, TARGETS, prepare)


def test_each_takes_at_most_two_places_elsewhere():
    places = Counter({block.heading: 0 for block in BLOCKS})
    places.update(block.heading for block in BLOCKS if block.language == "diff")
    assert places == {
        "A plugin": 0, "A trait of similarity": 2, "A kind of task": 0, "A figure": 1,
        "A view of the explorer": 1, "A stage": 1,
    }  # fmt: skip


def test_they_run_and_their_table_is_described(finished):
    tables = finished.results / "tables"
    heads = pd.read_parquet(tables / "heads.parquet").query("measure == 'gate_fisher'")
    assert len(heads) == 2 * 2 * LAYERS * HEADS and (heads["value"] > 0).all()
    assert "gate_fisher" in set(pd.read_parquet(tables / "belief.parquet")["ranking"])
    compared = pd.read_parquet(tables / "similarity.parquet").set_index("measure")
    assert compared.loc["shared-importance", "similarity"].between(0.01, 0.99).all()
    kept = pd.read_parquet(
        finished.results / "runs/bert/tone+topic/tuned/seed0/gates/each-layer/shared/0.5/gates.parquet"
    )
    assert set(kept.groupby("layer")["kept"].sum()) == {HEADS // 2}
    layers = pd.read_parquet(tables / "layers.parquet")
    assert len(layers) == 2 * (3 * 2 + 3) * LAYERS  # seeds; tasks of each pair, and each task alone
    assert (layers["importance"] > 0).all()
    alone = layers[layers["method"] == "single"].set_index(["task", "seed"])["importance"]
    for row in compared.loc[["layers"]].itertuples():
        pairs = [[alone[task, seed].to_numpy() for task in (row.task_a, row.task_b)] for seed in (0, 1)]
        assert row.similarity == pytest.approx(np.mean([cosine(*pair) for pair in pairs]))
    assert all((finished.path / target).exists() for target in TARGETS)
    rules = finished.plan("--forceall").rules
    assert rules["layers"] == rules["figure_overlap"] == 1
    assert "plugins: imports my_measures.py, layers.py" in finished.snakemake("--dry-run")
    command = [sys.executable, "-c", "from headspec.pipeline import outputs; print(outputs.markdown())"]
    environment = os.environ | {"PYTHONPATH": str(finished.path / "workflow")}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert "- `importance`: mean over the heads of the layer" in done.stdout


#: jobs whose code has the plugin: two seeds, and one table of all
USING = {"measured": 2, "similarity": 1, "pruned_run": 2}


def test_a_kind_of_task_is_learnt(finished):
    run = finished.results / "runs/bert/tone+replies/tuned/seed0"
    predictions = pd.read_parquet(run / "predictions.parquet").query("task == 'replies'")
    counts, expected = predictions["label"], predictions["prediction"]
    assert {*counts} == {0, 2, 4} and (expected > 0).all()
    pruning = pd.read_parquet(run / "pruning.parquet").query("task == 'replies' and pruned_for == 'none'")
    unpruned = predictions[predictions["pruned_for"] == "none"]
    right = (unpruned["prediction"].round() == unpruned["label"]).mean()
    assert pruning.set_index("metric")["value"]["exact_count"] == pytest.approx(right)
    dissociation = pd.read_parquet(finished.results / "tables/dissociation.parquet")
    assert "exact_count" in {*dissociation.query("mixture == 'tone+replies'")["metric"]}


@pytest.mark.needs("chromium")
def test_the_view_is_drawn(finished):
    table = pd.read_parquet(finished.results / "tables" / "reliability.parquet")
    ours = table.query("kind == 'seeds' and mixture == 'tone+topic' and method == 'tuned'")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        page = browser.new_page()
        page.goto(f"{(finished.results / 'explorer.html').as_uri()}#view=seeds&mixture=tone%2Btopic")
        assert page.locator("nav a").all_inner_texts()[-3:] == ["Seeds", "Glossary", "Provenance"]
        marks = page.locator("#panel-seeds [data-value]").all()
        shown = [float(mark.get_attribute("data-value")) for mark in marks]
        browser.close()
    np.testing.assert_allclose(shown, ours["top_overlap"], rtol=1e-5)


def test_an_edit_of_the_plugin_reruns_the_jobs_that_use_it(finished, tmp_path):
    """A file, the jobs that import it and what is made of them; a kind of task, the jobs of its tasks."""
    study = finished.copy(tmp_path / "study")
    assert study.plan(*TARGETS).rules == {}
    study.replace("my_measures.py", "** 2", "** 4")
    rules = study.plan(*TARGETS).rules
    assert {rule: rules.pop(rule) for rule in USING} == USING
    made_of_these = {"cumulative", "heads", "rankings", "belief", "correlation", "explorer", "gate_tables"}
    assert {rule for rule in rules if not rule.startswith("figure_")} == made_of_these
    study.replace("poisson/head.py", "values.exp()", "values.exp() + 1")
    rules = study.plan(*TARGETS).rules
    assert {rule: n for rule, n in rules.items() if rule in ("data", "tokenize", "train")} == {"train": 6}


def test_their_layout_and_types_are_those_of_the_house(finished):
    """As `make check` would find."""
    python = [block.title for block in BLOCKS if block.title.endswith(".py")]
    rules = [block.title for block in BLOCKS if block.title.endswith(".smk")]
    config = str(ROOT / "pyproject.toml")
    of_kinds = "poisson/*:D101,poisson/*:D102"  # as under `tasks/kinds`
    for command in (
        ["ruff", "check", "--config", config, "--extend-per-file-ignores", of_kinds, *python],
        ["ruff", "format", "--check", "--config", config, *python],
        ["snakefmt", "--check", "--config", config, *rules],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *command], cwd=finished.path, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout + done.stderr
