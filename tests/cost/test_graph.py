"""The jobs of a study are those that Snakemake would run, whatever is here; listing them leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import yaml

from headspec.config import loading
from headspec.config.study import Study
from headspec.cost import graph
from headspec.data import planned
from headspec.data.planned import Planned
from support.paths import ROOT
from support.running.studies import CONFIG

pytestmark = pytest.mark.slow

IAT = {
    "methods": ["tuned", "iat"],
    "iat": {
        "mixtures": ["tone+topic"],
        "controls": ["random", "lora"],
        "deltas": [0.2],
        "samplings": ["sqrt"],
    },
    "transfer": {"tasks": ["match"], "samples": [4, 16]},
}
TEXTS = {
    "mixtures": {"pairs": ["tone", "topic", "match"]},
    "similarity": {"measures": ["cka", "cnm"], "sentences": "sentences.txt"},
    "methods": ["tuned", "atlas"],
    "atlas": {"treebank": {"source": "trees.conllu"}},
    "brain": {"stimuli": "stimuli.tsv", "responses": "responses"},
}


def study(**sections) -> Study:
    return loading.load(CONFIG | sections)


def counts(study: Study, plan: Planned) -> dict[str, int]:
    """Rule: its number of jobs."""
    rules = [job.rule for job in graph.jobs(study, plan)]
    return {rule: rules.count(rule) for rule in rules}


@pytest.mark.parametrize("sections", [{}, IAT], ids=["plain", "IAT"])
def test_jobs_are_snakemake_s(folder, monkeypatch, sections):
    folder.write(CONFIG | sections)
    monkeypatch.chdir(folder.path)
    assert counts(study(**sections), planned.prepare_tasks(study(**sections))) == folder.plan().rules


@pytest.mark.parametrize("methods", [["tuned"], ["tuned", "iat"]], ids=str)
def test_jobs_of_hub_tasks_are_snakemake_s(folder, monkeypatch, methods):
    """Validation sets are read before texts can be compared with them, also for a transfer task."""
    far, new = ({"source": f"hub:someone/{name}@1"} for name in ("far", "new"))
    tasks = {"tone": CONFIG["tasks"]["tone"], "far": far | {"further": {"far-odd": "odd"}}, "new": new}
    more = {
        "tasks": tasks | {"far-pair": {"pairs_of": "far"}, "new-pair": {"pairs_of": "new"}},
        "methods": methods,
        "mixtures": {"pairs": ["tone", "far-pair"], "groups": {"both": ["tone", "far"]}},
        "iat": {"mixtures": ["both"], "controls": []},
        "transfer": {"tasks": ["new-pair"], "samples": [4], "methods": ["tuned"]},
    }
    folder.write(CONFIG | more)
    monkeypatch.chdir(folder.path)
    count = counts(study(**more), planned.prepare_tasks(study(**more)))
    assert count == folder.plan().rules and count["validation"] == 5


def test_jobs_of_the_demo_are_snakemake_s(folder):
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    folder.write(config)
    assert counts(loading.load(config), Planned()) == folder.plan().rules


def test_results_and_what_is_missing_here_change_no_job(folder, tmp_path, monkeypatch):
    """Neither does the folder; its results, and another Snakemake's lock, are not looked at."""
    folder.write(CONFIG)
    monkeypatch.chdir(folder.path)
    every = counts(study(), planned.prepare_tasks(study()))
    made = folder.results / "tables" / "dissociation.parquet"
    made.parent.mkdir(parents=True)
    made.touch()
    (folder.path / ".snakemake" / "locks").mkdir(parents=True, exist_ok=True)
    (folder.path / ".snakemake" / "locks" / "0.input.lock").write_text(str(made))
    assert counts(study(), Planned()) == every
    monkeypatch.chdir(tmp_path)
    assert counts(study(models={"bert": {"source": "hub:someone/far@main"}}), Planned()) == every


def test_files_of_every_kind_may_be_missing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    found = counts(study(**TEXTS), Planned())
    assert {"data", "sentences", "treebank", "stimuli", "nuisance", "voxels", "brain_encoding"} <= set(found)


def test_listing_says_and_leaves_nothing(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    jobs = graph.jobs(study(**IAT), Planned())
    assert (Path.cwd(), os.listdir(), graph.listed) == (tmp_path, [], None)
    assert capfd.readouterr() == ("", "")
    assert jobs == graph.jobs(study(**IAT), Planned())
    outputs = [path for job in jobs for path in job.outputs]
    assert len(outputs) == len(set(outputs)) and all(path.startswith("results/tiny/") for path in outputs)


def test_rows_of_the_plan_are_in_the_order_of_the_rules():
    stages = graph.by_stage(graph.jobs(study(**IAT), Planned()))
    rows = [
        "validation",
        "data",
        "train",
        "branch",
        "retrain",
        "importance",
        "prune",
        "dissociation",
        "figures",
    ]
    assert [stage for stage in stages if stage in rows] == rows
    assert {job.rule for job in stages["train"]} == {"train", "train_and_keep"}
