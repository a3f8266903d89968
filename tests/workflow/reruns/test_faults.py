"""Studies that are killed, or whose disk fails, at random moments: nothing is lost."""

import os
import shutil
from pathlib import Path

import numpy as np
import pytest

from headspec.pipeline.current import Results
from support.running.faults import KEPT, contents
from support.running.storms import DISKS, Run, own_disk, storm

pytestmark = pytest.mark.thorough

#: environment variables: how often to kill, and with which random numbers
KILLS, SEED = int(os.environ.get("KILLS", 2)), int(os.environ.get("SEED", 0))
#: what is killed: stages that train or learn, go on from checkpoints, and are made from each other
KILLED = "results/tiny/tables/improvement.parquet", "results/tiny/tables/budgets.parquet"
CHANGES = 120 // KILLS  # of files between two kills
TUNED, FROZEN = "runs/bert/tone+topic/tuned/seed0", "runs/bert/topic+pos/frozen/seed0"
#: a result: one of those that are made from it
DAMAGED = {
    "tokens/bert/pos/validation.parquet": f"{FROZEN}/predictions.parquet",
    f"{TUNED}/model/model.safetensors": f"{TUNED}/atlas/ablation.parquet",
    f"{FROZEN}/importance.parquet": "tables/reliability.parquet",
}


def left_over(results: Path) -> list[str]:
    """Temporary files and checkpoints of unfinished runs."""
    return [p.name for p in results.rglob("*") if p.suffix in (".tmp", ".pt") and p.name not in KEPT]


def test_a_study_killed_at_random_moments_ends_with_the_same_bytes(every_stage_finished, tmp_path):
    study = every_stage_finished.copy(tmp_path / "study", "results", ".snakemake")
    study.set("training.checkpoint_minutes", 0)
    counts = storm(study, KILLED, KILLS, CHANGES, np.random.default_rng(SEED))
    print(f"seed {SEED}: {counts}")
    assert sum(counts.values()) == KILLS
    before, after = contents(every_stage_finished.results), contents(study.results)
    assert {name: before[name] for name in after} == after
    assert {"tables/improvement.parquet", "tables/budgets.parquet"} <= set(after)
    assert left_over(study.results) == []
    assert "Nothing to be done" in study.snakemake(*KILLED)


def test_every_result_has_a_record_or_its_hash_in_one(every_stage_finished, monkeypatch):
    monkeypatch.chdir(every_stage_finished.path)
    results = Results(Path("results/tiny"))
    for path in results.found:
        assert results.problem(path) == "", path
    named = {
        results.place(path, name)
        for path, found in results.found.items()
        for name, known in found["output"].items()
        if known
    }
    # locks, copies of what is in archives, and what tells of the runs
    other = {*results.folder.rglob("*.lock"), *results.folder.rglob("submission/**/*.tsv")}
    other |= {results.folder / "config.yaml", *results.folder.rglob("logs/**/*")}
    made = {path for path in results.folder.rglob("*") if path.is_file()}
    assert made - other == named | {*results.found}


def test_damaged_results_are_named_and_made_again(every_stage_finished, tmp_path):
    """A bit of each file has changed on the disk, and nothing else."""
    study = every_stage_finished.copy(tmp_path / "study")
    rng = np.random.default_rng([SEED, 1])
    for name, made_from_it in DAMAGED.items():
        path = study.results / name
        data, times = bytearray(path.read_bytes()), path.stat()
        data[rng.integers(len(data))] ^= 1 << rng.integers(8)
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))
        (study.results / made_from_it).unlink()
    output = study.snakemake(*(f"results/tiny/{name}" for name in DAMAGED.values()))
    named = [f"results/tiny/{name}" for name in sorted(DAMAGED)]
    assert f"; they are rebuilt: {', '.join(named)}\n" in output
    assert contents(study.results) == contents(every_stage_finished.results)


@pytest.mark.needs("mounts")
@pytest.mark.parametrize("disk", DISKS)
def test_a_disk_that_fails_at_a_random_moment_loses_nothing(every_stage_finished, tmp_path, disk):
    rng = np.random.default_rng([SEED, len(disk)])
    study = every_stage_finished.copy(tmp_path / "study")
    study.set("training.checkpoint_minutes", 0)
    run = "runs/bert/tone+pos/tuned/seed0"
    shutil.rmtree(study.results / run)
    # a model that was saved before the disk failed is finished, and its job runs again only for its table
    tables = ("training", "predictions", "evaluation")
    targets = [f"results/tiny/{run}/{name}.parquet" for name in tables]
    fail, message = DISKS[disk]
    with own_disk(study.path / "results", 64):
        started = Run(study, *targets)
        assert started.until(int(rng.integers(1, 30)), rng.uniform(0, 0.5)), started.output
        with fail(study.path / "results"):
            assert started.wait() == 1
        # if no job was writing, Snakemake says it in its own words
        reported = f"{message}). " in started.output and "start snakemake again" in started.output
        assert reported or f"] {message}" in started.output, started.output
        study.snakemake(*targets)
        before = contents(every_stage_finished.results)
        after = contents(study.results)
        assert {name: before[name] for name in after} == after and f"{run}/predictions.parquet" in after
        assert left_over(study.results) == []
