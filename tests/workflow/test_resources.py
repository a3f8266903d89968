"""Resources that the jobs of every rule request, locally and on a cluster, and the profiles."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from headspec import code_hash
from support import brains
from support.paths import ROOT
from support.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

TASKS: dict[str, Any] = CONFIG["tasks"]
TONE: dict[str, Any] = TASKS["tone"] | {
    "labels": {"bad": "negative", "good": "positive"}, "further": {"more": "more"}, "test": {"SST-2": "test"},
}  # fmt: skip
#: a study that has every stage
WHOLE: dict[str, Any] = CONFIG | {
    "tasks": TASKS | {"tone": TONE},
    "mixtures": {"pairs": ["tone", "topic", "match"]},
    "methods": ["tuned", "frozen", "iat", "atlas"],
    "similarity": {"measures": ["text", "cka", "fisher", "importance", "cnm"], "max_sentences": 60},
    "iat": {"mixtures": ["tone+topic"], "controls": ["random"], "deltas": [0.2]},
    "transfer": {"tasks": ["match"], "samples": [4, 16]},
}
TARGETS = "all", "iat", "atlas", "submission", "preview"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Folder:
    """A study with every stage, before any job."""
    folder = Folder.new(tmp_path_factory.mktemp("resources") / "study")
    texts = folder.path / "texts" / "tone"
    rows = pd.read_parquet(texts / "validation.parquet")
    rows.assign(sentence="more " + rows["sentence"]).to_parquet(texts / "more.parquet")
    rows.to_parquet(texts / "test.parquet")
    values = brains.smooth(np.random.default_rng(0), (40, 6))
    (folder.path / "brain").mkdir()
    folder.write(WHOLE | {"brain": brains.save(folder.path / "brain", {"s0": values, "s1": values})})
    for path in (folder.path / "workflow" / "rules").glob(
        "*.smk"
    ):  # a message replaces the list of resources
        path.write_text(re.sub(r"    message:\n        .*\n", "", path.read_text()))
    return folder


def requests(folder: Folder, *arguments: str, gpus: str) -> dict[str, dict[str, str]]:
    """Rule: the threads and resources that its jobs request in a dry run."""
    process = folder.start(*TARGETS, "--dry-run", "--quiet", "host", *arguments, CUDA_VISIBLE_DEVICES=gpus)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    requested = {}
    for block in re.split(r"\n(?=(?:local)?rule \w+:)", output)[1:]:
        rule, threads = re.match(r"(?:local)?rule (\w+):", block), re.search(r"threads: (\d+)", block)
        resources = dict(re.findall(r"(\w+)=([^,\s]+)", re.search(r"resources: (.+)", block)[1]))
        requested[rule[1]] = {"threads": threads[1] if threads else "1"} | resources
    return {rule: resources for rule, resources in requested.items() if rule not in TARGETS}


def scripts() -> dict[str, Path]:
    """Rule: its script; a rule that inherits from another has the other's."""
    text = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    paths: dict[str, str] = {}
    drawn: dict[str, str] = {}
    for block in re.split(r"^ *(?=rule |use rule )", text, flags=re.MULTILINE)[1:]:
        rule = re.match(r"(?:rule|use rule (\w+) as) (\w+)", block)
        script, figure = (
            re.search(r'"\.\./(scripts/.+)"', block),
            re.search(r'(?:figure|script)="([\w/]+)"', block),
        )
        paths[rule[2]] = paths[rule[1]] if rule[1] else script[1]
        drawn[rule[2]] = figure[1] if figure else drawn.get(rule[1], "")
    return {
        rule: ROOT / "workflow" / re.sub(r"\{params\.\w+\}", drawn[rule], path)
        for rule, path in paths.items()
    }


def runs_a_model(script: Path) -> bool:
    """Whether a script imports, directly or not, the head gates, which every encoder needs."""
    return "headspec/models/gates.py" in code_hash.closure(script)


@pytest.mark.parametrize(
    ("arguments", "gpus", "of_models"),
    [
        ([], "", ("0", "2")),  # few runs share the cores
        (["--cores", "8", "--resources", "gpu=2"], "0,1", ("1", "2")),
        (["--profile", "profiles/slurm"], "", ("1", "2")),
        (["--profile", "profiles/slurm"], "0", ("1", "2")),
        (["--profile", "profiles/slurm", "--default-resources", "slurm_partition=big"], "", ("1", "2")),
        (["--profile", "profiles/slurm", "--set-resource-scopes", "gpu=excluded"], "0", ("0", "4")),
    ],
    ids=["no GPU", "two GPUs", "slurm", "slurm from a GPU", "slurm's partition", "slurm without GPUs"],
)
def test_every_job_that_runs_a_model_requests_the_same(whole, arguments, gpus, of_models):
    requested = requests(whole, "--cores", "8", *arguments, gpus=gpus)
    known = scripts()
    assert set(requested) == set(known), "the study lacks a stage"
    for rule, resources in requested.items():
        assert {"mem_mb", "runtime"} <= set(resources), rule
        expected = of_models if runs_a_model(known[rule]) else ("-", "1")
        assert (resources.get("gpu", "-"), resources["threads"]) == expected, rule
    assert sum(runs_a_model(known[rule]) for rule in requested) >= 12


def test_every_script_that_runs_a_model_uses_the_requested_device():
    for script in {path for path in scripts().values() if runs_a_model(path)}:
        assert "ModelStage(snakemake)" in script.read_text(), script


def test_jobs_per_gpu_share_a_gpu(whole, tmp_path):
    """The limit counts GPUs: with one GPU, two jobs start together only if two may share it."""
    study = whole.copy(tmp_path / "study")
    study.snakemake(*(f"results/tiny/tokens/bert/{task}/train.parquet" for task in ("tone", "topic")))
    trained = [f"results/tiny/runs/bert/tone+topic/frozen/seed{seed}/training.parquet" for seed in (0, 1)]
    limited = [*trained, "--forcerun", "train", "--resources", "gpu=1", "--cores", "4"]
    for jobs, at_once in {1: {1}, 2: {2}}.items():
        study.snakemake(*limited, "--config", f"jobs_per_gpu={jobs}", CUDA_VISIBLE_DEVICES="0")
        log = max((study.path / ".snakemake" / "log").iterdir()).read_text()
        assert set(map(int, re.findall(r"Execute (\d+) jobs", log))) == at_once, log


# --- profiles

PROFILES = ["profiles/default", "profiles/slurm"]
SHOWN = """
import sys
from snakemake.cli import parse_args
_, arguments = parse_args(sys.argv[1:])
limits = {name: resource.value for name, resource in arguments.resources.items()}
print(arguments.executor, arguments.jobs, limits, dict(arguments.set_resource_scopes))
"""


def parsed(folder: Folder, *arguments: str) -> str:
    """Executor, jobs, limits and scopes that Snakemake reads from arguments and profiles."""
    command = [sys.executable, "-c", SHOWN, *arguments]
    done = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, check=True)
    return done.stdout.strip().split("\n")[-1]


def test_limits_on_gpus(whole):
    assert parsed(whole, "--cores", "2") == "None None {'gpu': 1} {}"
    assert parsed(whole, "--cores", "8", "--resources", "gpu=2") == "None None {'gpu': 2} {}"
    # the limit of the default profile stays, but applies only within each submitted job
    assert parsed(whole, "--profile", "profiles/slurm") == "slurm 50 {'gpu': 1} {'gpu': 'local'}"


@pytest.mark.parametrize("profile", PROFILES)
def test_every_entry_of_a_profile_has_a_comment(profile):
    lines = (ROOT / profile / "profile.yaml").read_text().splitlines()
    entries = [i for i, line in enumerate(lines) if re.match(r"[a-z]", line)]
    assert len(entries) == len(yaml.safe_load("\n".join(lines))) > 0
    for i in entries:
        assert lines[i - 1].startswith("#"), lines[i]
