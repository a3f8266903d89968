"""Snakemake on studies of another kind: of single tasks, random weights, in odd places."""

import json
import os
from pathlib import Path

import pytest

from headspec import tables
from headspec.models.saved import read_encoder
from headspec.statistics.chance import warnings
from support.running import every_stage
from support.running.studies import CONFIG, Folder, changed

pytestmark = pytest.mark.slow


def test_a_study_of_single_tasks_ends_with_its_importance(tmp_path):
    folder = Folder.new(tmp_path / "study")
    folder.set("mixtures", {"single": ["tone", "topic"]})
    folder.set("methods", ["tuned"])
    folder.set("seeds", [0])
    folder.snakemake("all", "explorer")
    assert {path.stem for path in (folder.results / "figures").iterdir()} == {"reliability"}
    assert tables.read(folder.results / "tables/combined.parquet").empty
    assert set(tables.read(folder.results / "tables/reliability.parquet")["task"]) == {"tone", "topic"}
    assert (folder.results / "explorer.html").exists()
    assert not folder.plan().rules


def test_the_log_of_an_evaluation_says_what_was_not_learnt(tmp_path):
    """Of the task and of its further split, by a model that is hardly trained."""
    folder = every_stage.new(tmp_path / "study")
    folder.set("training", every_stage.STUDY["training"] | {"learning_rate": 1e-9})
    run = "runs/bert/tone/single/seed0"
    folder.snakemake(f"results/tiny/{run}/evaluation.parquet")
    log = (folder.results / "logs" / run / "evaluate.log").read_text()
    evaluation = tables.read(folder.results / run / "evaluation.parquet")
    tone, more = warnings(evaluation, dict.fromkeys(("tone", "more"), "accuracy"))
    assert log.count(tone) == log.count(more) == 1


def test_every_seed_has_its_own_random_weights_and_other_models_rerun_nothing(study, monkeypatch):
    monkeypatch.chdir(study.path)
    drawn = {"source": "models/tiny-bert", "max_length": 16, "weights": "random"}
    study.set("models", CONFIG["models"] | {"drawn": drawn})
    runs = [
        Path("results/tiny/runs", model, "tone+topic/frozen", f"seed{seed}")
        for model, seed in (("bert", 0), ("drawn", 0), ("drawn", 1))
    ]
    there, *new = [f"{run}/training.parquet" for run in runs]
    assert not study.plan(there).rules
    assert "features" not in study.plan(*new).rules  # no two seeds have the same
    study.snakemake(*new)
    name = "encoder.layer.0.attention.self.query.weight"
    stored, first, second = (read_encoder(run / "model")[0].state_dict()[name] for run in runs)
    assert stored.std() > 3 * first.std()
    assert not first.equal(second)
    study.set("models.drawn.weights", "pretrained")
    assert "train" in study.plan(*new).rules


def test_a_config_file_replaces_the_default_one(study):
    """`mixtures.single` and `seeds` of config.yaml must not show through."""
    tasks = {name: CONFIG["tasks"][name] for name in ("tone", "topic")}
    other = CONFIG | {"tasks": tasks, "study": "other", "mixtures": {"pairs": ["topic", "tone"]}}
    other = changed(other, {"methods": ["frozen"], "pruning": ...})
    study.write(other, "other.yaml")
    (study.path / "config.yaml").write_text("study: 5\nnonsense: [1]\n")
    plan = study.plan("--configfile", "other.yaml")
    assert plan.rules["data"] == 2 and plan.rules["train"] == plan.rules["prune"] == 2
    assert all("frozen" in message for message in plan.messages if message.startswith("Training"))
    study.snakemake("results/other/data/tone/train.parquet", "--configfile", "other.yaml")
    assert (study.path / "results" / "other" / "data" / "tone" / "train.parquet").exists()


def test_a_config_is_checked_before_snakemake_reads_it(tmp_path):
    """A pipe would keep it waiting, deep nesting ends it, and it runs Python."""
    folder = Folder.new(tmp_path / "study")
    config, ran = folder.path / "config.yaml", folder.path / "ran"
    texts = {
        "config.yaml: nested too deeply": f"study: {'[' * 5000}{']' * 5000}",
        "config.yaml: __use_yte__: runs the Python code in a config": f"__use_yte__: true\n__definitions__:\n"
        f"  - open({str(ran)!r}, 'w')\nstudy: tiny\n",
        "config.yaml: not a file, but a folder, pipe, socket or device; expected a file": None,
    }
    for told, text in texts.items():
        config.unlink()
        config.write_text(text) if text else os.mkfifo(config)
        output = folder.snakemake("--dry-run", fails=True)
        assert told in output and "Traceback" not in output
    assert not ran.exists()


def test_places_that_snakemake_cannot_use_are_refused(tmp_path):
    folder = Folder.new(tmp_path / "{mine}")
    output = folder.snakemake("--dry-run", fails=True)
    assert f"the project is in {folder.path}, where Snakemake takes braces for wildcards" in output
    folder = Folder.new(tmp_path / "study")
    link = folder.results / "tables"
    folder.results.mkdir(parents=True)
    link.symlink_to(link.name)
    looped = folder.snakemake("--dry-run", fails=True)
    assert "results/tiny/tables: links that lead to themselves; remove them" in looped
    assert "Traceback" not in output + looped


def test_a_type_of_model_from_a_plugin_is_known_in_jobs_and_its_code_counts(tmp_path):
    """Without the plugin, planning refuses the type."""
    folder = Folder.new(tmp_path / "study")
    config = folder.path / "models/tiny-bert/config.json"
    config.write_text(json.dumps(json.loads(config.read_text()) | {"model_type": "own-bert"}))
    run = "results/tiny/runs/bert/tone+topic/tuned/seed0"
    assert "is of type own-bert, which is not a type of transformers" in folder.snakemake("-n", fails=True)
    (folder.path / "own.py").write_text(
        "from transformers import AutoConfig, AutoModel, BertConfig, BertModel\n"
        "class OwnConfig(BertConfig):\n    model_type = 'own-bert'\n"
        "class OwnModel(BertModel):\n    config_class = OwnConfig\n"
        "AutoConfig.register('own-bert', OwnConfig)\nAutoModel.register(OwnConfig, OwnModel)\n"
    )
    folder.set("plugins", ["own.py"])
    folder.snakemake(f"{run}/pruning.parquet")
    assert not folder.plan(f"{run}/pruning.parquet").rules
    folder.replace("own.py", "BertModel):\n", "BertModel):\n    own = 1\n")
    assert {"train", "importance", "prune"} <= {*folder.plan(f"{run}/pruning.parquet").rules}
