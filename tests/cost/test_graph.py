"""The jobs of a study are those that Snakemake would run in an empty folder; listing them leaves no files."""

import os
from collections import Counter
from pathlib import Path

import pytest
import yaml

from headspec.config import loading
from headspec.config.study import Study
from headspec.cost import graph
from headspec.data import tasks_read
from headspec.data.tasks_read import TasksRead
from support.paths import ROOT
from support.running.studies import CONFIG, study

IAT = {
    "methods": ["tuned", "iat"],
    "iat": {"mixtures": ["tone+topic"], "controls": ["random", "lora"], "deltas": [0.2],
            "samplings": ["sqrt"]},
    "transfer": {"tasks": ["match"], "samples": [4, 16]},
}  # fmt: skip
FAR, NEW = ({"source": f"hub:someone/{name}@1"} for name in ("far", "new"))
#: validation sets are read before texts can be compared with them, also for a transfer task
HUB = {
    "tasks": {
        "tone": CONFIG["tasks"]["tone"],
        "far": FAR | {"further": {"far-odd": "odd"}},
        "new": NEW,
        "far-pair": {"pairs_of": "far"},
        "new-pair": {"pairs_of": "new"},
    },
    "mixtures": {"pairs": ["tone", "far-pair"], "groups": {"both": ["tone", "far"]}},
    "iat": {"mixtures": ["both"], "controls": []},
    "transfer": {"tasks": ["new-pair"], "samples": [4], "methods": ["tuned"]},
}
DEMO = yaml.safe_load((ROOT / "config.yaml").read_text())


def counts(study: Study, plan: TasksRead | None = None) -> dict[str, int]:
    """Rule: its number of jobs."""
    return dict(Counter(job.rule for job in graph.jobs(study, plan or TasksRead())))


@pytest.mark.slow
@pytest.mark.parametrize(
    "config",
    [CONFIG | IAT, CONFIG | HUB | {"methods": ["tuned"]}, CONFIG | HUB | {"methods": ["tuned", "iat"]}, DEMO],
    ids=["IAT", "hub", "hub, IAT", "demo"],
)
def test_jobs_are_snakemake_s(here, config):
    here.write(config)
    made = counts(loading.load(config), tasks_read.prepare_tasks(loading.load(config)))
    assert made == here.plan().rules
    assert made["validation"] == (5 if "far" in config["tasks"] else 3)


def test_results_and_what_is_missing_here_change_no_job(here, tmp_path, monkeypatch):
    """Neither does the folder; its results, and another Snakemake's lock, are not looked at."""
    every = counts(study(), tasks_read.prepare_tasks(study()))
    made = here.results / "tables" / "dissociation.parquet"
    for path in (made, here.path / ".snakemake" / "locks" / "0.input.lock"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(str(made))
    assert counts(study()) == every
    monkeypatch.chdir(tmp_path)
    assert counts(study(models={"bert": {"source": "hub:someone/far@main"}})) == every
    texts = study(
        mixtures={"pairs": ["tone", "topic", "match"]},
        similarity={"measures": ["cka", "cnm"], "sentences": "sentences.txt"},
        methods=["tuned", "atlas"],
        atlas={"treebank": {"source": "trees.conllu"}},
        brain={"stimuli": "stimuli.tsv", "responses": "responses"},
    )
    missing = {"data", "sentences", "treebank", "stimuli", "voxels", "brain_encoding"}
    assert counts(texts).keys() >= missing


def test_listing_says_and_leaves_nothing(tmp_path, monkeypatch, capfd):
    """Twice the same jobs, by stage in the order of the rules."""
    monkeypatch.chdir(tmp_path)
    jobs = graph.jobs(study(**IAT), TasksRead())
    assert (Path.cwd(), os.listdir()) == (tmp_path, [])
    assert capfd.readouterr() == ("", "")
    assert jobs == graph.jobs(study(**IAT), TasksRead())
    outputs = [path for job in jobs for path in job.outputs]
    assert len(outputs) == len(set(outputs)) and all(path.startswith("results/tiny/") for path in outputs)
    stages = graph.by_stage(jobs)
    rows = ["data", "train", "branch", "retrain", "importance", "prune", "dissociation", "figures"]
    assert [stage for stage in stages if stage in rows] == rows
    assert {job.rule for job in stages["train"]} == {"train", "train_and_keep"}
