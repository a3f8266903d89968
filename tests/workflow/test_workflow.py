"""Snakemake on a tiny study: results, reruns, interruptions, errors, other configs."""

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
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.internals.representations import vectors
from headspec.models.multitask import MultiTask
from headspec.pipeline.commands import summary
from support.paths import ROOT
from support.running.edits import setting
from support.running.studies import CONFIG, HEADS, LAYERS, TOKEN, Folder

PAIR = "runs/bert/tone+topic"
#: table: the columns that users rely on
CONTRACT = {
    "data/tone/train": "example text_a text_b label",
    "data/tone/validation": "example text_a text_b label",
    f"{PAIR}/tuned/seed0/training": "step epoch task loss learning_rate examples_per_second",
    f"{PAIR}/tuned/seed0/importance": "task fold layer head importance n",
    f"{PAIR}/tuned/seed0/pruning": "pruned_for order fraction draw n_pruned task metric value n",
    f"{PAIR}/tuned/seed0/predictions": "pruned_for task example label prediction",
    f"{PAIR}/frozen/seed1/predictions": "pruned_for task example label prediction",
    "runs/bert/match/single/seed1/importance": "task fold layer head importance n",
    "tables/dissociation":
        "model mixture method seed fraction task dissociation ci_low ci_high p_value at_chance",
    "tables/mixtures": "model mixture method seed mean_dissociation ci_low ci_high case distinct",
}  # fmt: skip


# --- end to end


def test_every_table_has_its_columns(finished):
    for name, columns in CONTRACT.items():
        frame = tables.read(finished.results / f"{name}.parquet")
        assert set(columns.split()) <= set(frame), name
        assert len(frame), name
    for method in ("tuned", "frozen"):
        model = finished.results / PAIR / method / "seed1" / "model"
        assert {p.name for p in model.iterdir()} == {"model.safetensors", "config.json", "classifiers.json"}


def test_every_figure_is_there_in_both_formats(finished):
    names = {"dissociation", "fractions.bert", "reliability"} | {
        f"{kind}.bert.tone+topic.{method}"
        for kind in ("importance", "matrix", "curves")
        for method in ("tuned", "frozen")
    }
    drawn = {path.name for path in (finished.results / "figures").iterdir()}
    assert drawn == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}


def test_nothing_temporary_is_left(finished):
    left = [
        p.name for p in finished.results.rglob("*") if p.name.endswith(".tmp") or p.name == "checkpoint.pt"
    ]
    assert left == []


def test_no_file_of_a_run_holds_the_token_of_the_hub(finished):
    files = [path for path in finished.path.rglob("*") if path.is_file()]
    assert any(".snakemake" in path.parts for path in files)
    assert [path for path in files if TOKEN.encode() in path.read_bytes()] == []


def test_rows_of_a_run(finished):
    run = finished.results / PAIR / "tuned" / "seed0"
    importance = tables.read(run / "importance.parquet")
    assert len(importance) == 2 * 10 * LAYERS * HEADS
    assert importance.groupby(["task", "layer", "head"])["n"].sum().eq(CONFIG["importance"]["samples"]).all()
    pruning = tables.read(run / "pruning.parquet")
    masks = pruning.drop_duplicates(["pruned_for", "order", "fraction", "draw"])
    # none; top and bottom heads of 2 tasks at 3 fractions; 4 draws of each kind of random
    assert masks["pruned_for"].value_counts().to_dict() == {
        "none": 1, "tone": 6, "topic": 6, "random": 4, "random_by_layer": 4
    }  # fmt: skip
    assert len(pruning) == 2 * len(masks) and pruning["value"].between(0, 1).all()
    main = pruning[(pruning["fraction"] - 0.3).abs() < 1e-9]
    assert main["n_pruned"].eq(2).all()  # floor(0.3 * 8)
    predictions = tables.read(run / "predictions.parquet")
    assert sorted(predictions["fraction"].unique()) == [0, 0.25, 0.3, 0.5]
    sizes = predictions.groupby(["pruned_for", "fraction", "task"]).size().unstack()
    assert len(sizes) == 1 + 2 * 3
    assert sizes.eq({"tone": 60, "topic": 50}).all(axis=None)


def test_pruning_agrees_with_the_predictions(finished):
    run = finished.results / PAIR / "frozen" / "seed1"
    predictions = tables.read(run / "predictions.parquet")
    right = predictions["label"] == predictions["prediction"]
    keys = ["pruned_for", "fraction", "task"]
    accuracy = right.groupby([predictions[key] for key in keys]).mean()
    pruning = tables.read(run / "pruning.parquet")
    kept = pruning[(pruning["order"] == "top") | (pruning["pruned_for"] == "none")]
    assert kept.set_index(keys)["value"].to_dict() == pytest.approx(accuracy.to_dict())
    assert len(kept) == 2 * (1 + 2 * 3)


def test_the_tasks_are_learnt(finished):
    """Labels depend on single words."""
    pruning = tables.read(finished.results / PAIR / "tuned" / "seed0" / "pruning.parquet")
    base = pruning[pruning["pruned_for"] == "none"].set_index("task")["value"]
    assert base["tone"] > 0.8 and base["topic"] > 0.6


def test_each_method_trains_with_its_own_settings(finished):
    batches = 13 + 13  # of 16 texts, from 200 of each task
    peaks = {"tuned": (4, 3e-3), "frozen": (3, 1e-3)}
    for method, (epochs, peak) in peaks.items():
        history = tables.read(finished.results / PAIR / method / "seed0" / "training.parquet")
        assert len(history) == epochs * batches
        assert history["learning_rate"].max() == pytest.approx(peak)


def test_features_are_written_once_per_task(finished):
    """For all mixtures and seeds; bit for bit the vectors of the encoder."""
    torch.set_num_threads(1)
    files = sorted(path.name for path in (finished.results / "features" / "bert").iterdir())
    assert files == ["tone.parquet", "topic.parquet"]
    built, pooling = encoders.load(Model(source=str(finished.path / "models" / "tiny-bert")), "models.bert")
    net = MultiTask(built, pooling, {})
    precision = tables.footer(finished.results / "features" / "bert" / "tone.parquet")["precision"]
    device = Device("cpu", "bfloat16" if precision == "bf16" else None)
    for task in ("tone", "topic"):
        texts = Examples(tables.read(finished.results / "tokens" / "bert" / task / "train.parquet"))
        read = texts.vectors(tables.read(finished.results / "features" / "bert" / f"{task}.parquet"))
        assert np.array_equal(read, vectors(net, task, texts, np.arange(len(texts)), device))


def test_tables_record_their_origin_but_no_date(finished):
    footer = tables.footer(finished.results / PAIR / "tuned" / "seed1" / "pruning.parquet")
    assert footer["study"] == "tiny" and footer["seed"] == 1 and footer["device"] == "cpu"
    assert footer["precision"] in ("fp32", "bf16") and footer["versions"]["torch"]
    today = time.strftime("%Y-%m-%d")
    for path in finished.results.rglob("*.parquet"):
        assert today not in json.dumps(tables.footer(path)), path


def test_a_second_run_has_nothing_to_do(study):
    assert "Nothing to be done" in study.snakemake()


@pytest.mark.slow
def test_statistics_of_finished_runs_are_planned_without_their_jobs(study):
    """As docs/performance.md advises for large studies; runs count as they are."""
    rules = ("--allowed-rules", "all", "dissociation", "reliability")
    assert study.plan(*rules).rules == {}
    shutil.rmtree(study.results / PAIR / "tuned" / "seed0" / "model")
    (study.results / "tables" / "reliability.parquet").unlink()
    assert study.plan(*rules).rules == {"reliability": 1}


@pytest.mark.slow
def test_report(study):
    study.snakemake("--report", "results/tiny/report.html")
    report = (study.results / "report.html").read_text()
    figures = {path.name.split(".")[0] for path in (study.results / "figures").iterdir()}
    captions = [ROOT / "workflow" / "report" / f"{name}.rst" for name in ["workflow", *sorted(figures)]]
    assert len(captions) == 7
    for caption in captions:
        words = re.findall(r"(?:[A-Za-z]+ ){4}[A-Za-z]+", caption.read_text())
        assert any(phrase in report for phrase in words), caption.name


@pytest.mark.slow
def test_a_preview_is_the_first_mixture_alone(study):
    assert study.plan("preview").rules == {"preview_dissociation": 1, "figure_preview": 1, "preview": 1}
    study.snakemake("preview")
    preview = study.results / "preview"
    of_all, first = (tables.read(f / "tables" / "dissociation.parquet") for f in (study.results, preview))
    rows = of_all[(of_all["mixture"] == "tone+topic") & (of_all["method"] == "tuned")].reset_index(drop=True)
    shared = ["seed", "task", "fraction", "dissociation", "ci_low", "ci_high"]
    assert len(first) and first[shared].equals(rows[shared])
    assert (preview / "figures" / "dissociation.png").exists()
    text, _ = summary.summarize(preview)
    assert "tone+topic" in text and "frozen" not in text
    assert "Nothing to be done" in study.snakemake("--dry-run")
    study.set("methods", ["frozen"])
    assert "expected the method tuned in the config" in study.snakemake("preview", fails=True)


# --- errors


def pickled_weights(study: Folder) -> None:
    folder = study.path / "models" / "tiny-bert"
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def repeated_task(study: Folder) -> None:
    study.replace("config.yaml", "  topic:\n", "  tone:\n    source: texts/other\n  topic:\n")


WRONG: list[tuple[str, Callable[[Folder], None], str]] = [
    ("unknown task", setting("mixtures.pairs", ["tone", "topics"]),
     "mixtures.pairs.1: no task 'topics'; expected one of tone, topic, match. Did you mean 'topic'?"),
    ("missing column", setting("tasks.tone.text_a", "sentense"),
     "tasks.tone.text_a: no column 'sentense' in train.parquet; it has sentence, label. "
     "Did you mean 'sentence'?"),
    ("pickled weights", pickled_weights,
     "models.bert.source: 'models/tiny-bert' has no complete safetensors weights"),
    ("repeated task", repeated_task, "tasks.tone: already set on line"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_errors_are_reported_before_any_job(study, change, message):
    change(study)
    before = {path: path.stat().st_mtime_ns for path in study.results.rglob("*")}
    output = study.snakemake("--forceall", fails=True)
    errors = output.split("the study cannot be run:\n")[1].split("\n")
    errors = [line for line in errors if line.strip() and not line.startswith("  File ")]
    assert len(errors) == 1 and message in errors[0], output
    assert "Traceback" not in output and "Job stats" not in output
    assert {path: path.stat().st_mtime_ns for path in study.results.rglob("*")} == before
