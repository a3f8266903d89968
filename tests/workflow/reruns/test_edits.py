"""Jobs that run again after an edit: exactly those that depend on it, wherever and whenever it was made."""

import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from snakemake.persistence.file import FilePersistence

from headspec import tables
from headspec.config.loading import load
from headspec.cost import graph
from headspec.data.tasks_read import TasksRead
from support.paths import ROOT
from support.running.edits import at_import, setting
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

PAIR = "runs/bert/tone+topic"
INTERNALS, SCORES = "headspec/models/internals", "headspec/statistics/dissociation/scores.py"
WEIGHTS = "models/tiny-bert/model.safetensors"
EVERYTHING = dict(Counter(job.rule for job in graph.jobs(load(CONFIG), TasksRead())))


def all_of(*rules: str) -> dict[str, int]:
    """All jobs of these rules in the study."""
    return {rule: EVERYTHING[rule] for rule in rules}


DISSOCIATION = all_of("dissociation", "figure_dissociation", "figure_fractions", "figure_matrix_parts")
STATISTICS = DISSOCIATION | all_of("contrasts")
FEATURES = all_of("features")
FIGURES = all_of(*(rule for rule in EVERYTHING if rule.startswith("figure_")))
AFTER_PRUNING = STATISTICS | all_of("figure_matrix", "figure_curves")
FROM_PRUNING = all_of("prune") | AFTER_PRUNING
FROM_IMPORTANCE = all_of("importance", "prune", "reliability", "dissociation", "contrasts") | FIGURES
FROM_TRAINING = all_of("train") | FROM_IMPORTANCE
FROM_TOKENS = all_of("tokenize") | FEATURES | FROM_TRAINING
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
    study.replace("workflow/headspec/tables.py", '"""Write `table`', '"""Save `table`')
    declared = "snakemake: Snakemake\n"
    study.replace("workflow/scripts/training/train.py", declared, f"# of this job\n{declared}")


def rewritten(name: str) -> Callable[[Folder], object]:
    """A file is written again with the same bytes."""
    return lambda study: (study.path / name).write_bytes((study.path / name).read_bytes())


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
    """Of the same size and date."""
    path = study.path / WEIGHTS
    data, times = path.read_bytes(), path.stat()
    path.write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def older_texts(study: Folder) -> None:
    """Replaced by a file with an older date, as `cp -p`, `unzip` and `rsync -a` do."""
    study.replace("texts/topic.tsv", "tree", "wave")
    os.utime(study.path / "texts" / "topic.tsv", (1, 1))


def switched_link(study: Folder) -> None:
    """The texts are now a link to an older file."""
    older_texts(study)
    path = study.path / "texts" / "topic.tsv"
    path.symlink_to(path.rename(path.with_name("other.tsv")).name)


def older_predictions(study: Folder) -> None:
    """Predictions of one run replaced by others of the same origin."""
    path = study.results / PAIR / "tuned" / "seed0" / "predictions.parquet"
    table = pq.read_table(path)
    rows = table.to_pandas()
    rows["prediction"] = 0
    table = pa.Table.from_pandas(rows, table.schema, preserve_index=False)
    metadata = {"headspec": table.schema.metadata[b"headspec"]}
    tables.save(path, table.replace_schema_metadata(metadata))
    os.utime(path, (1, 1))


def renamed(name: str, change: Callable[[Folder], None] | None = None) -> Callable[[Folder], None]:
    """The study and the folder of its results get another name, and `change` is made."""

    def both(study: Folder) -> None:
        study.results.rename(study.results.with_name(name))
        study.set("study", name)
        if change:
            change(study)

    return both


def copied_for_another_fraction(study: Folder) -> None:
    """Results under another name, with new times, beside those of the first study."""
    shutil.copytree(study.results, study.results.with_name("tiny2"), copy_function=shutil.copyfile)
    study.set("study", "tiny2")
    study.set("pruning.fraction", 0.5)


def swapped_figures(study: Folder) -> None:
    """A figure in the place of another."""
    figures = study.results / "figures"
    shutil.copy2(figures / "matrix.bert.tone+topic.frozen.svg", figures / "matrix.bert.tone+topic.tuned.svg")


def model_card(study: Folder) -> None:
    for name in ("README.md", "README.txt", "trainer_state.json", "onnx/config.json", "eval/results.json"):
        path = study.path / "models" / "tiny-bert" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")


def new_section(study: Folder) -> None:
    """A section of the config that no stage reads."""
    sections = study.path / "workflow" / "headspec" / "config" / "sections"
    shutil.copy(sections / "training.py", sections / "added.py")
    old = "    figures: Figures = "
    study.replace("workflow/headspec/config/study.py", old, f"    added: Any = None\n{old}")


def new_version(study: Folder) -> None:
    """A version of headspec itself."""
    path = study.path / "workflow" / "headspec" / "VERSION"
    assert path.read_text() != "99.0\n"
    path.write_text("99.0\n")


CHANGES: list[tuple[str, Callable[[Folder], None], dict[str, int], str]] = [
    # the change, jobs that would run by rule, pattern of their messages from training to pruning
    ("main fraction", setting("pruning.fraction", 0.5), FROM_PRUNING | all_of("reliability") | FIGURES, ""),
    ("a fraction added", setting("pruning.fractions", [0.25, 0.5, 0.75]), FROM_PRUNING, ""),
    ("resamples", setting("dissociation.resamples", 300), STATISTICS, ""),
    ("threshold of distinct", setting("dissociation.distinct", 0.2), DISSOCIATION, ""),
    ("importance samples", setting("importance.samples", 70), FROM_IMPORTANCE, ""),
    ("a seed added", setting("seeds", [0, 1, 2]),
     FROM_TRAINING | {"train": 3, "importance": 3, "prune": 2}, "seed 2$"),
    ("a seed removed", setting("seeds", [0]),
     all_of("reliability", "dissociation", "contrasts") | FIGURES, ""),
    ("a task added to pairs", setting("mixtures.pairs", ["tone", "topic", "match"]),
     {"features": 1, "train": 8, "importance": 8, "prune": 8, "reliability": 1, "figure_importance": 4,
      "figure_matrix": 4, "figure_curves": 4, "figure_reliability": 1} | STATISTICS, r"\+match, "),
    ("a method removed", setting("methods", ["tuned"]),
     all_of("reliability", "figure_reliability") | STATISTICS, ""),
    ("learning rate", setting("training.learning_rate", "2e-3"),
     ONE_METHOD | {"train": 4, "importance": 4}, "tuned|single"),
    ("frozen learning rate", setting("training.frozen.learning_rate", "2e-3"), ONE_METHOD, "frozen"),
    ("precision", setting("precision", "fp32"), FEATURES | FROM_TRAINING, ""),
    ("maximum length", setting("models.bert.max_length", 12), FROM_TOKENS, ""),
    ("metrics of a task", setting("tasks.tone.metrics", ["matthews", "accuracy"]), FROM_PRUNING, ""),
    ("order of classes", setting("tasks.topic.labels", ["wood", "sea", "town"]),
     FROM_ONE_TASK, r"tone\+topic"),
    ("data seed", setting("data_seed", 1), EVERYTHING, ""),
    ("resolution", setting("figures.dpi", 70), FIGURES, ""),
    ("another format", setting("figures.formats", ["svg", "png", "pdf"]), FIGURES, ""),
    ("plot style",
     edit("headspec/plots/drawing/headspec.mplstyle", "font.size", "legend.fontsize: 5\nfont.size"),
     FIGURES, ""),
    ("the script of figures", at_import("scripts/plots/figure.py"), FIGURES, ""),
    ("dissociation's module", at_import(SCORES),
     STATISTICS | all_of("figure_matrix"), ""),
    ("the features' module", at_import(f"{INTERNALS}/activations.py"), ONE_METHOD | FEATURES, "frozen"),
    ("training's module", at_import("headspec/training/loop.py"), FROM_TRAINING, ""),
    ("the module that all stages use", at_import("headspec/tables.py"), EVERYTHING, ""),
    # changes of the model
    ("the tokenizer's words",
     lambda study: study.replace("models/tiny-bert/tokenizer.json", '"tram"', '"trams"'), FROM_TOKENS, ""),
    ("a table of statistics added",
     edit("headspec/statistics/dissociation/analysis.py", "SCHEMAS = {",
          'SCHEMAS = {"more": Schema({"n": INT}, keys=1),'), DISSOCIATION, ""),
    # where times say nothing
    ("older texts", older_texts, FROM_ONE_TASK, r"tone\+topic"),
    ("a link to older texts", switched_link, FROM_ONE_TASK, r"tone\+topic"),
    ("weights of the same size and date", other_weights, FEATURES | FROM_TRAINING, ""),
    ("older predictions of a run", older_predictions,
     STATISTICS | {"figure_matrix": 1, "figure_curves": 1}, ""),
    ("a figure in the place of another", swapped_figures, {"figure_matrix": 1}, ""),
    # under another name
    ("renamed", renamed("tiny2"), {}, ""),
    ("renamed, older texts", renamed("tone", older_texts), FROM_ONE_TASK, r"tone\+topic"),
    ("copied, main fraction", copied_for_another_fraction,
     FROM_PRUNING | all_of("reliability") | FIGURES, ""),
    ("renamed, records gone", forgotten(renamed("tiny2", setting("figures.dpi", 70))), FIGURES, ""),
    # without Snakemake's records, which `test_results_restore_the_records_of_snakemake` finds equal again
    ("a fresh clone", fresh_clone, {}, ""),
    ("results copied as new files", forgotten(copied_as_new), {}, ""),
    ("records gone, other weights", forgotten(other_weights), FEATURES | FROM_TRAINING, ""),
    ("records gone, older predictions of a run", forgotten(older_predictions),
     STATISTICS | {"figure_matrix": 1, "figure_curves": 1}, ""),
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


def test_a_backup_that_is_put_back_after_newer_results_is_not_taken_for_them(study):
    target = f"results/tiny/{PAIR}/tuned/seed0/predictions.parquet"
    backup, predictions = study.path / "backup", study.path / target
    shutil.copytree(study.results, backup)
    study.set("pruning.draws", 5)
    older_texts(study)
    study.snakemake(target)
    newer = shutil.copy2(predictions, study.path / "newer.parquet")
    shutil.copy2(backup / predictions.relative_to(study.results), predictions)
    assert study.plan(target).rules == {"prune": 1}
    shutil.copy2(newer, predictions)
    assert study.plan(target).rules == {}
    shutil.rmtree(study.results)
    shutil.copytree(backup, study.results)
    of_topic = dict.fromkeys(["validation", "data", "tokenize", "train", "importance", "prune"], 1)
    assert study.plan(target).rules == of_topic


#: none of which is anything that a stage depends on
HARMLESS: dict[str, Callable[[Folder], None]] = {
    "the same learning rate, written differently": setting("training.learning_rate", 0.003),
    "checkpoint interval": setting("training.checkpoint_minutes", 1),
    "one format less": setting("figures.formats", ["svg"]),
    "texts written again": rewritten("texts/tone/train.parquet"),
    "the same weights, written again": rewritten(WEIGHTS),
    "a model card": model_card,
    "comments and docstrings": comments,
    "a section added": new_section,
    "a check of the config": at_import("headspec/config/checks/consistency.py"),
    "a table of another stage": at_import("headspec/statistics/transfer.py"),
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


def test_another_version_of_the_package_that_carries_the_model(study, tmp_path):
    site = tmp_path / "site"
    shutil.copytree(study.path / "models" / "tiny-bert", site / "tinymodel" / "model")
    (site / "tinymodel" / "__init__.py").touch()
    environment = install(site, "tinymodel", "1.0")
    study.set("models.bert.source", "package:tinymodel/model")
    until_tokens = ("--until", "tokenize")
    study.snakemake(*until_tokens, **environment)
    assert study.plan(*until_tokens, **environment).rules == {}
    install(site, "tinymodel", "1.1")
    assert study.plan(*until_tokens, **environment).rules == all_of("tokenize")


#: answers as conda does, and makes environments that add nothing to this one
CONDA = """#!/bin/sh
case "$*" in
  *info*) echo '{"conda_prefix": "FOLDER", "root_prefix": "FOLDER", "platform": "linux-64"}' ;;
  *--version*) echo conda 24.7.1 ;;
  *channel_priority*) echo '{"get": {"channel_priority": "strict"}}' ;;
  *create*) while [ "$1" != --prefix ]; do shift; done; mkdir -p "$2" ;;
esac
"""


def test_an_edited_environment_without_records(study, tmp_path):
    """Where jobs run in it."""
    (tmp_path / "conda" / "bin").mkdir(parents=True)
    (tmp_path / "conda" / "bin" / "activate").touch()
    command = tmp_path / "conda" / "conda"
    command.write_text(CONDA.replace("FOLDER", str(command.parent)))
    command.chmod(0o755)
    path = {"PATH": os.pathsep.join([str(command.parent), os.environ["PATH"]])}
    conda = ("--sdm", "conda", "--until", "tokenize")
    study.snakemake(*conda, **path)
    forgotten()(study)
    assert study.plan(*conda, **path).rules == {}
    study.replace("envs/train.yaml", "dependencies:", "dependencies:\n  - another")
    assert study.plan("--until", "tokenize").rules["tokenize"] == 3  # outside of the environments
    forgotten()(study)
    assert study.plan(*conda, **path).rules == all_of("tokenize")


def test_texts_of_a_package_that_are_edited_where_they_are_installed(study, tmp_path):
    """As in a package that is being written, whose version stays."""
    site = tmp_path / "site"
    environment = install(site, "tinytexts", "1.0")
    (site / "tinytexts").mkdir()
    (site / "tinytexts" / "__init__.py").touch()
    shutil.copy(study.path / "texts" / "topic.tsv", site / "tinytexts")
    study.set("tasks.topic.source", "package:tinytexts/topic.tsv")
    until_tokens = ("--until", "tokenize")
    study.snakemake(*until_tokens, **environment)
    assert study.plan(*until_tokens, **environment).rules == {}
    path = site / "tinytexts" / "topic.tsv"
    path.write_text(path.read_text().replace("tree", "wave", 1))
    assert study.plan(*until_tokens, **environment).rules == {"validation": 1, "data": 1, "tokenize": 1}


def test_other_versions_of_packages_are_reported_and_rerun_nothing(study, tmp_path):
    torch = tables.versions()["torch"]
    assert "other versions" not in study.snakemake("--dry-run")
    environment = install(tmp_path / "site", "torch", "99.0")
    output = study.snakemake("--dry-run", **environment)
    assert "Nothing to be done" in output
    (line,) = [line for line in output.splitlines() if "other versions" in line]
    assert f"torch {torch} (installed: 99.0). `snakemake --cores all --forceall` rebuilds all of them" in line
    assert study.plan("--forceall").rules == EVERYTHING
    path = os.pathsep.join([environment["PYTHONPATH"], str(ROOT / "workflow")])
    command = [sys.executable, "-m", "headspec", "summary", str(study.results)]
    done = subprocess.run(
        command, env=os.environ | {"PYTHONPATH": path}, capture_output=True, text=True, check=True
    )
    assert f"torch {torch} (installed: 99.0)" in done.stdout
