"""A tiny study on a real SLURM cluster of one node: requests, groups, the same tables."""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from support.running import slurm
from support.running.faults import contents
from support.running.requests import requests, show_resources
from support.running.studies import CONFIG, Folder

pytestmark = [pytest.mark.thorough, pytest.mark.needs("SLURM")]

STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "mixtures": {"pairs": ["tone", "topic"]},
    "training": CONFIG["training"] | {"epochs": 1, "frozen": {"epochs": 1}},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 10},
    "dissociation": {"resamples": 100},
    "iat": {"mixtures": ["tone+topic"], "controls": []},
    "figures": {"dpi": 50, "formats": ["png"]},
}  # fmt: skip
RUNS = "runs/bert/tone+topic"
RUN = f"{RUNS}/tuned/seed0"
#: trainings of three kinds, importance and pruning, a table, and figures of one run, which are one group
TARGETS = [f"results/tiny/{name}" for name in (
    "preview/tables/dissociation.parquet", f"{RUNS}/frozen/seed0/training.parquet",
    f"{RUNS}/iat/seed0/training.parquet",
    "figures/importance.bert.tone+topic.tuned.png", "figures/matrix.bert.tone+topic.tuned.png",
)]  # fmt: skip
ON_THE_LOGIN_NODE = {"validation", "data", "tokenize"}
GROUPS = {"heads": {"importance", "prune"}, "figures": {"figure_importance", "figure_matrix"}}


@dataclass(frozen=True)
class Runs:
    """The study here and on the cluster, and what the cluster shows of its jobs."""

    local: Folder
    cluster: Folder
    jobs: dict[int, dict[str, str]]


@pytest.fixture(scope="module")
def cluster() -> Iterator[slurm.Cluster]:
    with slurm.cluster() as cluster, pytest.MonkeyPatch.context() as patch:
        for name, value in cluster.environment.items():
            patch.setenv(name, value)
        yield cluster


@pytest.fixture(scope="module")
def runs(cluster, tmp_path_factory) -> Runs:
    local = Folder.new(tmp_path_factory.mktemp("slurm") / "local")
    local.write(STUDY)
    remote = local.copy(local.path.parent / "cluster")
    # as many threads as on the cluster, so that sums have the same order
    local.snakemake(*TARGETS, "--cores", "2", "--resources", "gpu=2", CUDA_VISIBLE_DEVICES="0,1")
    remote.snakemake(*TARGETS, *slurm.OPTIONS)
    return Runs(local, remote, cluster.jobs())


def test_results_are_those_of_a_local_run(runs):
    assert {job["JobState"] for job in runs.jobs.values()} == {"COMPLETED"}
    assert contents(runs.cluster.results) == contents(runs.local.results)


def test_every_job_gets_what_its_rule_requests(runs):
    """Groups get the most of their jobs, and the time of all jobs that follow each other."""
    show_resources(runs.cluster)
    expected = requests(runs.cluster, *TARGETS, *slurm.OPTIONS, "--forceall")
    submitted: set[str] = set()
    for job in runs.jobs.values():
        name = re.sub(r"^rule_|_wildcards_.*", "", job["Comment"])
        group = next((group for group in GROUPS if name.startswith(f"{group}_")), None)
        rules = GROUPS[group] if group else {name}
        submitted |= rules
        wanted = [Counter({k: int(v) for k, v in expected[rule].items() if v.isdigit()}) for rule in rules]
        side_by_side = len(wanted) if group == "figures" else 1
        assert job["TRES"].startswith(
            f"cpu={side_by_side * max(each['threads'] for each in wanted)},"
            f"mem={side_by_side * max(each['mem_mb'] for each in wanted)}M,"
        ), name
        gpus = max(each["gpu"] for each in wanted)
        assert job["JOB_GRES"] == (f"gpu:{gpus}" if gpus else "(null)"), name
        times = [each["runtime"] for each in wanted]
        hours, minutes = divmod(sum(times) if group == "heads" else max(times), 60)
        days, hours = divmod(hours, 24)
        assert job["TimeLimit"] == f"{days}-{hours:02}:{minutes:02}:00".removeprefix("0-"), name
    assert set(expected) - submitted == ON_THE_LOGIN_NODE
    assert {"features", "train", "train_and_keep", "branch", "retrain"} | GROUPS["heads"] <= submitted


def test_what_the_cluster_says_of_a_failure_is_shown(cluster, tmp_path):
    study = Folder.new(tmp_path / "study")
    refused = ["--default-resources", "slurm_partition=nowhere", "--retries", "0"]
    output = study.snakemake(f"results/tiny/{RUN}/importance.parquet", *slurm.OPTIONS, *refused, fails=True)
    (line,) = [line for line in output.splitlines() if "  failed  " in line]
    assert "invalid partition specified: nowhere" in line
