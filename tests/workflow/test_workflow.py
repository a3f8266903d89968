"""Snakemake on a tiny study: its results, what it says before any job, report and preview."""

import json
import re
import shutil
import time
from collections.abc import Callable

import numpy as np
import pytest
import torch

from headspec import tables
from headspec.config.sections.model import Model
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.internals.activations import vectors
from headspec.models.multitask import MultiTask
from headspec.pipeline.commands import summary
from support.paths import ROOT
from support.running.studies import CONFIG, HEADS, LAYERS, TOKEN, Folder

PAIR = "runs/bert/tone+topic"


# --- end to end


def test_no_file_of_a_run_is_temporary_or_holds_the_token_of_the_hub(finished):
    model = finished.results / PAIR / "tuned" / "seed1" / "model"
    assert {p.name for p in model.iterdir()} == {"model.safetensors", "config.json", "classifiers.json"}
    files = [path for path in finished.path.rglob("*") if path.is_file()]
    assert any(".snakemake" in path.parts for path in files)
    for path in files:
        assert path.suffix != ".tmp" and path.name != "checkpoint.pt"
        assert TOKEN.encode() not in path.read_bytes(), path


def test_tables_record_their_origin_but_no_date(finished):
    footer = tables.footer(finished.results / PAIR / "tuned" / "seed1" / "pruning.parquet")
    assert footer["study"] == "tiny" and footer["seed"] == 1 and footer["device"] == "cpu"
    assert footer["precision"] in ("fp32", "bf16") and footer["versions"]["torch"]
    today = time.strftime("%Y-%m-%d")
    for path in finished.results.rglob("*.parquet"):
        assert today not in json.dumps(tables.footer(path)), path


def test_a_run_has_the_heads_and_masks_that_the_config_asks_for(finished):
    run = finished.results / PAIR / "tuned" / "seed0"
    importance = tables.read(run / "importance.parquet")
    n = importance.groupby(["task", "layer", "head"])["n"].sum()
    assert len(n) == 2 * LAYERS * HEADS and n.eq(CONFIG["importance"]["samples"]).all()
    pruning = tables.read(run / "pruning.parquet")
    masks = pruning.drop_duplicates(["pruned_for", "order", "fraction", "draw"])
    # none; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each kind of random
    assert masks["pruned_for"].value_counts().to_dict() == {
        "none": 1, "tone": 6, "topic": 6, "random": 4, "random_by_layer": 4
    }  # fmt: skip
    assert pruning.loc[pruning["fraction"] == 0.3, "n_pruned"].eq(2).all()  # floor(0.3 * 8)


def test_pruning_agrees_with_the_predictions_of_tasks_that_are_learnt(finished):
    """Labels depend on single words."""
    run = finished.results / PAIR / "tuned" / "seed0"
    keys = ["pruned_for", "fraction", "task"]
    predictions = tables.read(run / "predictions.parquet")
    sizes = predictions.groupby(keys).size().unstack()
    assert len(sizes) == 1 + 2 * 3 and sizes.eq({"tone": 60, "topic": 50}).all(axis=None)
    assert {*predictions["fraction"]} == {0, 0.25, 0.3, 0.5}
    right = predictions["label"] == predictions["prediction"]
    accuracy = right.groupby([predictions[key] for key in keys]).mean()
    pruning = tables.read(run / "pruning.parquet")
    kept = pruning[(pruning["order"] == "top") | (pruning["pruned_for"] == "none")].set_index(keys)["value"]
    assert kept.to_dict() == pytest.approx(accuracy.to_dict())
    assert accuracy["none", 0, "tone"] > 0.8 and accuracy["none", 0, "topic"] > 0.6


def test_features_are_written_once_per_task(finished):
    """For all mixtures and seeds; bit for bit the vectors of the encoder."""
    torch.set_num_threads(1)
    files = sorted(path.name for path in (finished.results / "features" / "bert").iterdir())
    assert files == ["tone.parquet", "topic.parquet"]
    net = MultiTask.pretrained(Model(source=str(finished.path / "models" / "tiny-bert")), "models.bert", {})
    precision = tables.footer(finished.results / "features" / "bert" / "tone.parquet")["precision"]
    device = Device("cpu", "bfloat16" if precision == "bf16" else None)
    for task in ("tone", "topic"):
        texts = Examples(tables.read(finished.results / "tokens" / "bert" / task / "train.parquet"))
        read = texts.vectors(tables.read(finished.results / "features" / "bert" / f"{task}.parquet"))
        assert np.array_equal(read, vectors(net, task, texts, np.arange(len(texts)), device))


def test_a_second_run_has_nothing_to_do(study):
    assert "Nothing to be done" in study.snakemake()


@pytest.mark.slow
def test_statistics_of_finished_runs_are_planned_without_their_jobs(study):
    """As docs/performance.md advises for large studies; runs count as they are."""
    shutil.rmtree(study.results / PAIR / "tuned" / "seed0" / "model")
    (study.results / "tables" / "reliability.parquet").unlink()
    assert study.plan("--allowed-rules", "all", "dissociation", "reliability").rules == {"reliability": 1}


@pytest.mark.slow
def test_report(study):
    study.snakemake("--report", "results/tiny/report.html")
    report = (study.results / "report.html").read_text()
    figures = {path.name.split(".")[0] for path in (study.results / "figures").iterdir()}
    captions = [ROOT / "workflow" / "report" / f"{name}.rst" for name in ["workflow", *sorted(figures)]]
    assert len(captions) == 8
    assert all(words in report for words in ("What was found", ", 1 mixture: ", "Dissociation of every task"))
    for caption in captions:
        words = re.findall(r"(?:[A-Za-z]+ ){4}[A-Za-z]+", caption.read_text())
        assert any(phrase in report for phrase in words), caption.name


@pytest.mark.slow
def test_a_preview_is_the_first_mixture_alone(study):
    assert study.plan("preview").rules == {"preview_dissociation": 1, "figure_preview": 1, "preview": 1}
    study.snakemake("preview")
    preview = study.results / "preview"
    whole, first = (tables.read(f / "tables" / "dissociation.parquet") for f in (study.results, preview))
    rows = whole[(whole["mixture"] == "tone+topic") & (whole["method"] == "tuned")].reset_index(drop=True)
    shared = ["seed", "task", "fraction", "dissociation", "ci_low", "ci_high"]
    assert len(first) and first[shared].equals(rows[shared])
    assert (preview / "figures" / "dissociation.png").exists()
    text, _ = summary.summarize(preview)
    assert "tone+topic" in text and "frozen" not in text
    assert study.plan().rules == {}
    study.set("mixtures", {"single": ["tone", "topic"]})
    refused = study.snakemake("preview", fails=True).split("Building DAG of jobs...\n")[1]
    assert refused == "nothing to do for this target; expected a mixture of several tasks in the config\n"


@pytest.mark.slow
def test_a_dry_run_has_a_row_for_every_rule_with_what_it_waits_for(study):
    """Messages refer to individual jobs only if those are shown."""
    study.set("pruning.fraction", 0.25)
    shown = study.snakemake("--dry-run")
    rows = shown.split("Job stats:\n")[1].split("\n\n")[0].splitlines()[2:]
    rules = {row.split()[0]: row.split(maxsplit=2)[2:] for row in rows}
    assert len(rules) == len(rows) and shown.count("dissociation ") == 2  # and figure_dissociation
    assert rules["reliability"] == ["params have changed since last execution"]
    assert rules["dissociation"] == ["input files updated by another job"]
    assert "Reasons:" not in shown and "individual jobs" not in shown
    assert "check individual jobs above" in study.snakemake("--dry-run", "--quiet", "host")


# --- errors


def unknown_task(study: Folder) -> None:
    study.set("mixtures.pairs", ["tone", "topics"])


def wrong_files(study: Folder) -> None:
    study.set("tasks.tone.text_a", "sentense")
    folder = study.path / "models" / "tiny-bert"
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def repeated_key(study: Folder) -> None:
    study.replace("config.yaml", "  topic:\n", "  tone:\n    source: texts/other\n  topic:\n")


#: a change, and the lines of the error that it leads to
WRONG: list[tuple[Callable[[Folder], None], list[str]]] = [
    (unknown_task, ["mixtures.pairs.1: no task 'topics'; expected one of tone, topic, match. "
                    "Did you mean 'topic'?"]),
    (wrong_files, ["models.bert.source: 'models/tiny-bert' has no complete safetensors weights",
                   "tasks.tone.text_a: no column 'sentense' in train.parquet; it has sentence, label. "
                   "Did you mean 'sentence'?"]),
    (repeated_key, ["tasks.tone: already set on line"]),
]  # fmt: skip


@pytest.mark.parametrize(("change", "messages"), WRONG)
def test_errors_are_reported_together_before_any_job(study, change, messages):
    change(study)
    before = {path: path.stat().st_mtime_ns for path in study.results.rglob("*")}
    output = study.snakemake("--forceall", fails=True)
    errors = output.split("the study cannot be run:\n")[1].split("\n")
    errors = [line for line in errors if line.strip()]
    assert len(errors) == len(messages), output
    for message in messages:
        assert any(message in error for error in errors), output
    assert "Traceback" not in output and "Job stats" not in output
    assert {path: path.stat().st_mtime_ns for path in study.results.rglob("*")} == before
