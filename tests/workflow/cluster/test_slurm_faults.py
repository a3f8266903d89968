"""Trainings on a real SLURM cluster of one node: past their time, too large, cancelled, without a node.

It takes some ten minutes, most of them SLURM's own, so `make storm` runs it.
"""

import re
import socket

import pytest

from support.running import slurm
from support.running.faults import until
from support.running.studies import CONFIG, Folder

pytestmark = [pytest.mark.storm, pytest.mark.needs("SLURM")]

MEGABYTES = 2000
#: for the path of jobs: having saved eight states, seed 0 never ends, twice, and seed 1 takes memory, once
FAULT = f"""
import os, sys, time
saved = 0
def fault(event, arguments):
    global saved
    if event == "os.rename" and str(arguments[1]).endswith("checkpoint.pt"):
        saved += 1
        seed, markers = str(arguments[1])[-15], [str(arguments[1]) + ".1", str(arguments[1]) + ".2"]
        left = [marker for marker in markers[: 2 - int(seed)] if not os.path.exists(marker)]
        if saved == 8 and left:
            open(left[0], "w").close()
            taken = b"x" * {MEGABYTES} * 10**6 if seed == "1" else b""
            time.sleep(10**6)
sys.addaudithook(fault)
"""
RUNS = [f"runs/bert/tone+topic/tuned/seed{seed}" for seed in (0, 1)]


def test_a_training_outlives_what_a_cluster_does_to_it(tmp_path):
    study = Folder.new(tmp_path / "study")
    study.write(CONFIG | {"training": CONFIG["training"] | {"epochs": 2, "checkpoint_minutes": 0}})
    study.snakemake(*(f"results/tiny/tokens/bert/{task}/train.parquet" for task in ("tone", "topic")))
    (tmp_path / "fault").mkdir()
    (tmp_path / "fault" / "sitecustomize.py").write_text(FAULT)
    first, second = (study.results / RUNS[0] / f"checkpoint.pt.{attempt}" for attempt in (1, 2))
    node = socket.gethostname().split(".")[0]
    with slurm.cluster() as cluster:

        def shown(seed: int, *states: str) -> list[dict[str, str]]:
            """The jobs of a training, from the first attempt, those in one of `states` if any is given."""
            jobs = [job for job in cluster.jobs().values() if job["Comment"].endswith(f"_tuned_{seed}")]
            return [job for job in jobs if not states or job["JobState"] in states]

        process = study.start(
            *(f"results/tiny/{run}/training.parquet" for run in RUNS), *slurm.OPTIONS,
            "--set-resources", f"train:mem_mb={MEGABYTES}*attempt",
            PYTHONPATH=str(tmp_path / "fault"), **cluster.environment,
        )  # fmt: skip
        until(first.exists, process)
        (job,) = shown(0)
        cluster.run("scontrol", "update", f"JobId={job['JobId']}", "TimeLimit=1")
        until(second.exists, process)
        cluster.stop("slurmctld")
        cluster.start("slurmctld", "-D")
        until(lambda: cluster.run("sinfo", "--noheader", check=False), process)
        (job,) = shown(0, "RUNNING")
        cluster.run("scontrol", "update", f"NodeName={node}", "State=DRAIN", "Reason=test")
        cluster.run("scancel", job["JobId"])
        until(lambda: shown(0, "PENDING"), process)
        cluster.run("scontrol", "update", f"NodeName={node}", "State=RESUME")
        output, _ = process.communicate()
        assert process.returncode == 0, output
        assert [job["JobState"] for job in shown(0)] == ["TIMEOUT", "CANCELLED", "COMPLETED"], output
        # without control groups, a job that was ended for its memory counts as failed
        small, large = shown(1)
        assert small["JobState"] in ("FAILED", "OUT_OF_MEMORY") and large["JobState"] == "COMPLETED", output
        assert f"mem={MEGABYTES}M" in small["TRES"] and f"mem={2 * MEGABYTES}M" in large["TRES"]
    assert re.search(r"  failed    Training bert on tone\+topic, tuned, seed 0.*'TIMEOUT'", output), output
    for run in RUNS:
        assert "continuing after step" in (study.results / "logs" / run / "train.log").read_text()
