"""The floating-point operations of a study, by model, stage and task, and of each of its jobs.

``python -m headspec.cost.operations`` reads the config of a study as JSON and prints the operations of its
jobs as JSON, for the view of a run.
"""

from __future__ import annotations

import functools
import itertools
import json
import math
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from headspec.config.runs import Run
from headspec.config.study import Study
from headspec.cost import throughput, workload
from headspec.cost.job_counts import frozen_features, of_stage
from headspec.cost.memory import Sizes
from headspec.cost.throughput import PASSES
from headspec.cost.workload import Extent
from headspec.heads.masks import masks
from headspec.pipeline import preflight
from headspec.pipeline.layout import Layout

OF_TRAINING, OF_VALIDATION = "tasks.{task}.train_examples", "tasks.{task}.validation_examples"
#: (stage, pass of `PASSES`): the setting that reduces it
REDUCED_BY = {
    ("train", "train"): OF_TRAINING,
    ("features", "prune"): OF_TRAINING,
    ("importance", "importance"): "importance.samples",
    ("prune", "prune"): f"pruning.draw_examples or {OF_VALIDATION}",
    ("text_embedding", "prune"): "similarity.samples",
    ("representations", "prune"): "similarity.max_sentences",
    ("sensitivity", "train"): "similarity.samples",
    ("branch", "train"): OF_TRAINING,
    ("branch", "importance"): "importance.samples",
    ("retrain", "train"): OF_TRAINING,
    ("evaluate", "prune"): OF_VALIDATION,
    ("transfer", "train"): "transfer.steps",
    ("transfer", "prune"): OF_VALIDATION,
    ("attention", "prune"): "atlas.examples",
    ("attended", "prune"): "atlas.sentences",
    ("relevance", "importance"): "atlas.examples",
    ("ablation", "prune"): "atlas.examples, or leave mean_ablation out of atlas.rankings",
    ("cumulative", "prune"): "atlas.fractions, atlas.rankings or atlas.examples",
    ("cumulative", "importance"): "atlas.fractions",
}
#: cost of ablating every head alone, relative to a whole pass for each: what comes before is computed once
RESUMED = 0.53
#: stages of the head atlas that run a model
OF_ATLAS = ("attention", "attended", "relevance", "ablation", "cumulative")
#: stage: an output of its job of each run
OUTPUTS = {"train": "training.parquet", "importance": "importance.parquet", "prune": "pruning.parquet"}


class Load(NamedTuple):
    """Examples of a task that pass through the encoder in a job, named by one of its outputs."""

    output: str
    model: str
    stage: str
    kind: str  #: pass of `PASSES`
    task: str
    examples: float


def examples(extent: Extent, run: Run) -> dict[str, dict[str, float]]:
    """Stage: task: examples that pass through the encoder in a job of `run`, once per epoch and mask."""
    study, sizes = extent.study, {task: extent.sizes[task] for task in run.tasks}
    training_sizes = {task: size.train for task, size in sizes.items()}
    trained = expected_examples(study, training_sizes, study.training.sampling)
    if run.method == "frozen":  # the operations of the classifiers are negligible
        trained = dict.fromkeys(sizes, 0.0)
    pruning = study.pruning
    importances = {task: np.zeros((2, 2)) for task in run.tasks}
    shape = pruning.model_dump(include={"fraction", "fractions", "draws", "bottom"})
    planned = masks(importances, seed=run.seed, **shape)
    draws = sum(mask.draw is not None for mask in planned)
    by_stage: dict[str, dict[str, float]] = {
        "train": trained,
        "importance": {t: min(study.importance.samples, s.train) for t, s in sizes.items()},
        "prune": {
            t: (len(planned) - draws) * s.validation
            + draws * min(pruning.draw_examples or s.validation, s.validation)
            for t, s in sizes.items()
        },
    }
    return {stage: amounts for stage, amounts in by_stage.items() if of_stage([run], stage)}


def expected_examples(study: Study, sizes: dict[str, int], sampling: str) -> dict[str, float]:
    """Expected training examples of each task over all epochs, as drawn by `headspec.training.schedule`."""
    training = study.training
    if sampling == "proportional":
        return {task: float(training.epochs * n) for task, n in sizes.items()}
    steps = np.array([-(-n // training.batch_size) for n in sizes.values()])
    epochs = np.arange(training.epochs)
    powers = 1 - 0.8 * epochs / max(training.epochs - 1, 1)
    if sampling == "sqrt":
        powers = np.full(training.epochs, 0.5)
    weights = steps[None] ** powers[:, None]  # (epochs, tasks)
    drawn = steps.sum() * (weights / weights.sum(1, keepdims=True)).sum(0)
    return {task: d * n / s for (task, n), d, s in zip(sizes.items(), drawn, steps, strict=True)}


def operations(extent: Extent) -> dict[tuple[str, str, str, str], float]:
    """(model, stage, pass of `PASSES`, task): floating-point operations of all its jobs."""
    total: dict[tuple[str, str, str, str], float] = {}
    for load, cost in _costs(extent):
        key = load.model, load.stage, load.kind, load.task
        total[key] = total.get(key, 0.0) + cost
    return total


def of_jobs(extent: Extent) -> dict[str, float]:
    """Output of a job that runs a model, as in `Layout.jobs`: its floating-point operations."""
    total: dict[str, float] = {}
    for load, cost in _costs(extent):
        total[load.output] = total.get(load.output, 0.0) + cost
    return total


def _costs(extent: Extent) -> Iterator[tuple[Load, float]]:
    """Every load with its floating-point operations."""
    size, layout = extent.study.training.batch_size, Layout(extent.study)
    of_length = functools.cache(lambda model, tokens: throughput.forward(extent.configs[model], tokens, size))
    for load in itertools.chain(
        _of_runs(extent, layout),
        _of_similarity(extent, layout),
        _of_iat_and_transfer(extent, layout),
        _of_atlas(extent, layout),
    ):
        length = extent.tokens[load.model, load.task]
        yield load, PASSES[load.kind] * load.examples * of_length(load.model, length)


def _of_runs(extent: Extent, layout: Layout) -> Iterator[Load]:
    """The loads of the study's runs."""
    for run in extent.runs:
        for stage, amounts in examples(extent, run).items():
            (output,) = layout.of_runs([run], OUTPUTS[stage])
            for task, n in amounts.items():
                yield Load(output, run.model, stage, stage, task, n)
    for model, task in sorted(frozen_features(extent.runs)):
        output = layout.result("features", model, f"{task}.parquet")
        yield Load(output, model, "features", "prune", task, extent.sizes[task].train)


def _of_similarity(extent: Extent, layout: Layout) -> Iterator[Load]:
    """The loads of measuring the similarity of tasks.

    A sentence counts as an example. Stimuli, which are not read here, are left out.
    """
    study, measures = extent.study, extent.study.similarity
    known = [task for task in study.in_order(study.mixtures.pairs) if task in extent.sizes]
    for model, task in itertools.product(extent.configs, known):
        samples = min(measures.samples, extent.sizes[task].train)
        if measures.asked("text_embedding"):
            output = layout.result("similarity", model, "text.parquet")
            yield Load(output, model, "text_embedding", "prune", task, samples)
        for seed in study.seeds:
            folder = layout.result("similarity", model, f"seed{seed}")
            if measures.asked("representations"):
                output = f"{folder}/sentences.parquet"
                yield Load(output, model, "representations", "prune", task, measures.max_sentences)
            for measure in measures.asked("sensitivity"):
                yield Load(f"{folder}/{measure}.parquet", model, "sensitivity", "train", task, samples)


def _of_iat_and_transfer(extent: Extent, layout: Layout) -> Iterator[Load]:
    """The loads of the sections `iat` and `transfer`, if `methods` includes `iat`."""
    study, iat, transfer = extent.study, extent.study.iat, extent.study.transfer
    if "iat" not in study.methods:
        return
    done = {run.path for run in study.runs}
    variants = {variant.method: variant for variant in study.variants}
    scored: set[str] = set()
    for run in (r for r in study.iat_runs if r.model in extent.configs and {*r.tasks} <= {*extent.sizes}):
        model, variant = run.model, variants.get(run.method, variants["tuned"])
        sizes = {task: extent.sizes[task].train for task in run.tasks}
        (trained_to,) = layout.of_runs([run], OUTPUTS["train"])
        (evaluated,) = layout.of_runs([run], "evaluation.parquet")
        if variant.delta is not None:
            base = replace(run, method=variant.base)
            (branch,) = layout.of_runs([base], f"branch/{variant.delta:g}/state.pt")
        for task, trained in expected_examples(study, sizes, variant.sampling).items():
            splits = 1 + len(study.tasks[task].further)
            yield Load(evaluated, model, "evaluate", "prune", task, splits * extent.sizes[task].validation)
            if variant.delta is not None:
                yield Load(trained_to, model, "retrain", "train", task, variant.delta * trained)
                if branch not in scored:
                    before = (iat.reserve - variant.delta) * trained
                    yield Load(branch, model, "branch", "train", task, before)
                    samples = min(study.importance.samples, sizes[task])
                    yield Load(branch, model, "branch", "importance", task, samples)
            elif run.path not in done:
                yield Load(trained_to, model, "train", "train", task, trained)
        if variant.delta is not None:
            scored.add(branch)
        if run.method == "iat":
            for stage in ("importance", "prune"):
                (output,) = layout.of_runs([run], OUTPUTS[stage])
                for task, n in examples(extent, run)[stage].items():
                    yield Load(output, model, stage, stage, task, n)
    fits = transfer.draws * len(transfer.samples)
    known = [task for task in transfer.tasks if task in extent.sizes]
    for run, task in itertools.product(study.transfer_runs, known):
        if run.model in extent.configs:
            (output,) = layout.of_runs([run], f"transfer/{task}.parquet")
            full = "full" in transfer.tuning
            evaluated_on = extent.sizes[task].validation * (1 + fits * full)
            yield Load(output, run.model, "transfer", "prune", task, evaluated_on)
            if full:
                trained = sum(transfer.steps * min(transfer.batch_size, n) for n in transfer.samples)
                yield Load(output, run.model, "transfer", "train", task, transfer.draws * trained)


def _of_atlas(extent: Extent, layout: Layout) -> Iterator[Load]:
    """The loads of the section `atlas`, if `methods` includes `atlas`.

    Sentences for roles count as examples of the run's first task.
    """
    study, atlas = extent.study, extent.study.atlas
    if "atlas" not in study.methods:
        return
    levels = len({*atlas.fractions, study.pruning.fraction} - {1.0})
    ends = 1 + atlas.bottom
    rescored = ends * levels * ("rescored" in atlas.rankings)
    for run in study.atlas_runs:
        if run.model not in extent.configs or not {*run.tasks} <= {*extent.sizes}:
            continue
        heads = math.prod(Sizes.of(extent.configs[run.model].to_dict()).grid)
        ablated = 1 + len(atlas.ablations) * heads * RESUMED
        others = len(atlas.rankings) * (len(run.tasks) - 1)
        ranked = len(atlas.rankings) + ("importance" in atlas.rankings and len(run.tasks) > 1)  # and for all
        pruned = 2 + levels * (ends * ranked + atlas.draws) + others
        outputs = {stage: layout.of_runs([run], f"atlas/{stage}.parquet")[0] for stage in OF_ATLAS}
        yield Load(outputs["attended"], run.model, "attended", "prune", run.tasks[0], atlas.sentences)
        for task in run.tasks:
            n = min(atlas.examples, extent.sizes[task].validation)
            for stage, kind, passes in (
                ("attention", "prune", 1), ("relevance", "importance", 2), ("ablation", "prune", ablated),
                ("cumulative", "prune", pruned), ("cumulative", "importance", rescored),
            ):  # fmt: skip
                yield Load(outputs[stage], run.model, stage, kind, task, passes * n)


def main() -> None:
    print(json.dumps(of_jobs(workload.read(preflight.load(json.load(sys.stdin))))))


if __name__ == "__main__":
    main()
