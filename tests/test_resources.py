"""What the jobs of every rule ask for, on a machine and on a cluster, and what the profiles say."""

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

import brains
from headspec import sources
from studies import CONFIG, ROOT, Folder

pytestmark = pytest.mark.slow

TASKS: dict[str, Any] = CONFIG["tasks"]
TONE: dict[str, Any] = TASKS["tone"] | {
    "labels": {"bad": "negative", "good": "positive"}, "further": {"more": "more"}, "test": {"SST-2": "test"},
}  # fmt: skip
#: a study that has every stage
WHOLE: dict[str, Any] = CONFIG | {
    "tasks": TASKS | {"tone": TONE},
    "mixtures": {"pairs": ["tone", "topic", "match"]},
    "methods": ["tuned", "frozen", "iat"],
    "similarity": {"measures": ["text", "cka", "fisher", "importance", "cnm"], "probe_sentences": 60},
    "iat": {"mixtures": ["tone+topic"], "controls": ["random"], "deltas": [0.2]},
    "transfer": {"tasks": ["match"], "samples": [4, 16]},
}
TARGETS = "all", "iat", "submission"


@pytest.fixture(scope="module")
def whole(tmp_path_factory) -> Folder:
    """The study of every stage, of which nothing is done."""
    folder = Folder.new(tmp_path_factory.mktemp("resources") / "study")
    texts = folder.path / "texts" / "tone"
    rows = pd.read_parquet(texts / "validation.parquet")
    rows.assign(sentence="more " + rows["sentence"]).to_parquet(texts / "more.parquet")
    rows.to_parquet(texts / "test.parquet")
    values = brains.smooth(np.random.default_rng(0), (40, 6))
    (folder.path / "brain").mkdir()
    folder.write(WHOLE | {"brain": brains.save(folder.path / "brain", {"s0": values, "s1": values})})
    for path in (folder.path / "workflow" / "rules").glob("*.smk"):  # a message hides what is asked for
        path.write_text(re.sub(r"    message:\n        .*\n", "", path.read_text()))
    return folder


def requests(folder: Folder, *arguments: str, gpus: str) -> dict[str, dict[str, str]]:
    """Rule: the threads and resources that its jobs ask for in a dry run."""
    process = folder.start(*TARGETS, "--dry-run", "--quiet", "host", *arguments, CUDA_VISIBLE_DEVICES=gpus)
    output, _ = process.communicate()
    assert process.returncode == 0, output
    found = {}
    for block in re.split(r"\n(?=(?:local)?rule \w+:)", output)[1:]:
        rule, threads = re.match(r"(?:local)?rule (\w+):", block), re.search(r"threads: (\d+)", block)
        resources = dict(re.findall(r"(\w+)=([^,\s]+)", re.search(r"resources: (.+)", block)[1]))
        found[rule[1]] = {"threads": threads[1] if threads else "1"} | resources
    return {rule: asked for rule, asked in found.items() if rule not in TARGETS}


def scripts() -> dict[str, Path]:
    """Rule: its script; a rule that is made from another has the other's."""
    text = "\n".join(path.read_text() for path in (ROOT / "workflow" / "rules").glob("*.smk"))
    found = {}
    for block in re.split(r"^rule ", text, flags=re.MULTILINE)[1:]:
        script = re.search(r'"\.\./(scripts/.+)"', block)
        found[block.split(":")[0]] = ROOT / "workflow" / script[1]
    made = re.findall(r"^use rule (\w+) as (\w+) with:", text, re.MULTILINE)
    return found | {new: found[old] for old, new in made}


def runs_a_model(script: Path) -> bool:
    """Whether a script reaches the gates, without which no encoder runs."""
    return "headspec/gates.py" in sources.closure(script)


@pytest.mark.parametrize(
    ("arguments", "gpus", "asked"),
    [
        ([], "", ("0", "1")),
        (["--cores", "8", "--resources", "gpu=2"], "0,1", ("1", "2")),
        (["--profile", "profiles/slurm"], "", ("1", "2")),
        (["--profile", "profiles/slurm"], "0", ("1", "2")),
        (["--profile", "profiles/slurm", "--default-resources", "slurm_partition=big"], "", ("1", "2")),
        (["--profile", "profiles/slurm", "--set-resource-scopes", "gpu=excluded"], "0", ("0", "4")),
    ],
    ids=["no GPU", "two GPUs", "slurm", "slurm from a GPU", "slurm's partition", "slurm without GPUs"],
)
def test_every_job_that_runs_a_model_asks_for_the_same(whole, arguments, gpus, asked):
    found = requests(whole, "--cores", "8", *arguments, gpus=gpus)
    known = scripts()
    assert set(found) == set(known), "the study has every stage"
    for rule, resources in found.items():
        assert {"mem_mb", "runtime"} <= set(resources), rule
        expected = asked if runs_a_model(known[rule]) else ("-", "1")
        assert (resources.get("gpu", "-"), resources["threads"]) == expected, rule
    assert sum(runs_a_model(known[rule]) for rule in found) >= 12


def test_every_script_that_runs_a_model_takes_its_gpu():
    for script in {path for path in scripts().values() if runs_a_model(path)}:
        assert "devices.prepare(params.precision, snakemake.threads" in script.read_text(), script


def test_a_gpu_is_shared_by_as_many_jobs_as_the_study_says(whole):
    """The limit counts GPUs: two jobs of one GPU begin together where two may share it, else one."""
    targets = [f"results/tiny/encoded/bert/{task}/train.parquet" for task in ("tone", "topic")]
    whole.snakemake(*targets)
    trained = [f"results/tiny/runs/bert/tone+topic/frozen/seed{seed}/training.parquet" for seed in (0, 1)]
    limited = [*trained, "--forcerun", "train", "--resources", "gpu=1", "--cores", "4", "--quiet", "host"]
    for jobs, at_once in {1: {1}, 2: {2}}.items():
        output = whole.snakemake(*limited, "--config", f"jobs_per_gpu={jobs}", CUDA_VISIBLE_DEVICES="0")
        assert set(map(int, re.findall(r"Execute (\d+) jobs", output))) == at_once, output


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
    """Executor, jobs, limits and scopes as Snakemake understands its arguments and profiles."""
    command = [sys.executable, "-c", SHOWN, *arguments]
    done = subprocess.run(command, cwd=folder.path, capture_output=True, text=True, check=True)
    return done.stdout.strip().split("\n")[-1]


def test_limits_on_gpus(whole):
    assert parsed(whole, "--cores", "2") == "None None {'gpu': 1} {}"
    assert parsed(whole, "--cores", "8", "--resources", "gpu=2") == "None None {'gpu': 2} {}"
    # the default profile comes first, so its limit stays, but holds within each submitted job alone
    assert parsed(whole, "--profile", "profiles/slurm") == "slurm 50 {'gpu': 1} {'gpu': 'local'}"


@pytest.mark.parametrize("profile", PROFILES)
def test_every_entry_of_a_profile_is_explained(profile):
    lines = (ROOT / profile / "profile.yaml").read_text().splitlines()
    entries = [i for i, line in enumerate(lines) if re.match(r"[a-z]", line)]
    assert len(entries) == len(yaml.safe_load("\n".join(lines))) > 0
    for i in entries:
        assert lines[i - 1].startswith("#"), lines[i]
