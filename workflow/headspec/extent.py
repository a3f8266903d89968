"""How much a study is: its examples, tokens and operations, counted before anything runs.

What a job would read is read here too, where it can be; what is missing is named, and left out.
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig

from headspec import encoding, speed, tasks
from headspec.architectures import ARCHITECTURES, folder, hub_name
from headspec.errors import DataError, EncoderError, HeadspecError, listing
from headspec.jobs import frozen_features, of_stage
from headspec.masks import masks
from headspec.runs import Run
from headspec.sections import Model
from headspec.speed import PASSES
from headspec.study import Study
from headspec.tasks import Prepared

TOKENS = {"single": 25, "pair": 50}  # of a single text, and of a pair, where they cannot be counted
SAMPLE = 300  # texts per task whose tokens are counted
OF_TRAINING, OF_VALIDATION = "tasks.{task}.train_examples", "tasks.{task}.validation_examples"
#: stage, and what is computed in it: the setting that makes it less
WORK = {
    ("train", "train"): OF_TRAINING,
    ("features", "prune"): OF_TRAINING,
    ("importance", "importance"): "importance.samples",
    ("prune", "prune"): f"pruning.draw_examples or {OF_VALIDATION}",
    ("text_embedding", "prune"): "similarity.samples",
    ("representations", "prune"): "similarity.probe_sentences",
    ("sensitivity", "train"): "similarity.samples",
    ("branch", "train"): OF_TRAINING,
    ("branch", "importance"): "importance.samples",
    ("retrain", "train"): OF_TRAINING,
    ("evaluate", "prune"): OF_VALIDATION,
    ("transfer", "train"): "transfer.steps",
    ("transfer", "prune"): OF_VALIDATION,
}

Job = tuple[str, str, str]  # model, stage, and pass of `PASSES`


@dataclass(frozen=True)
class Size:
    """Examples of a task in each split; `prepared` where they were read, else `note` says why not."""

    train: int
    validation: int
    prepared: Prepared | None
    note: str


@dataclass
class Extent:
    """What is known of a study, found out step by step; `problems` say what is missing."""

    study: Study
    sizes: dict[str, Size] = field(default_factory=dict)
    configs: dict[str, PretrainedConfig] = field(default_factory=dict)
    #: (model, task): tokens per example
    tokens: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: dict[tuple[str, str], bool] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """The runs of which everything is known."""
        return [r for r in self.study.runs if r.model in self.configs and {*r.tasks} <= {*self.sizes}]


def read(study: Study) -> Extent:
    """Sizes of tasks, configs of models, and tokens, as far as they are here."""
    extent = Extent(study)
    for name in sorted(study.tasks, key=lambda name: study.tasks[name].pairs_of is not None):
        try:
            extent.sizes[name] = size(study, name, extent.sizes)
        except DataError as error:
            extent.problems.append(str(error))
    for name, model in study.models.items():
        try:
            path, extent.configs[name] = config(model, f"models.{name}")
        except HeadspecError as error:
            extent.problems.append(str(error))
            continue
        for task, found in extent.sizes.items():
            length = tokens(model, path, extent.configs[name], found)
            extent.counted[name, task] = length is not None
            extent.tokens[name, task] = length or min(TOKENS[study.tasks[task].paradigm], model.max_length)
    return extent


def size(study: Study, name: str, known: dict[str, Size]) -> Size:
    """Examples of a task: read and split as its job will do it, else the config's numbers."""
    task = study.tasks[name]
    parent = known.get(task.pairs_of or "")
    try:
        if task.pairs_of and (parent is None or parent.prepared is None):
            raise DataError(f"tasks.{task.pairs_of} cannot be read here")
        prepared = tasks.prepare(name, task, study.data_seed, parent.prepared if parent else None)
        return Size(len(prepared.train), len(prepared.validation), prepared, "as read here")
    except DataError as error:
        limits = {"train_examples": task.train_examples, "validation_examples": task.validation_examples}
        for split in ("train", "validation") if parent else ():
            limits[f"{split}_examples"] = limits[f"{split}_examples"] or getattr(parent, split)
        lacking = [f"tasks.{name}.{key}" for key, value in limits.items() if value is None]
        if lacking:
            raise DataError(
                f"{error}\n{listing(lacking)}: missing, expected here to plan without it"
            ) from None
        train, held = (int(value) for value in limits.values() if value)
        return Size(train, held, None, "by the config: the texts cannot be read here")


def config(model: Model, key: str) -> tuple[Path, PretrainedConfig]:
    """The folder of a model's files, which need not hold weights, and its config."""
    try:
        path = _hub_folder(model) if model.source.startswith("hub:") else folder(model, key)
        if path.suffix == ".gguf":
            found = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        else:
            found = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(
            f"{key}.source: the config.json of '{model.source}' cannot be had ({type(error).__name__})"
        ) from None
    if found.model_type not in ARCHITECTURES:
        raise EncoderError(
            f"{key}.source: the heads of '{model.source}' cannot be gated: its model type is "
            f"{found.model_type!r}; expected one of {listing(ARCHITECTURES)}"
        )
    return path, found


def _hub_folder(model: Model) -> Path:
    """The folder of a hub model in the cache; only its config.json is fetched to it."""
    from huggingface_hub import errors, hf_hub_download

    name, revision = hub_name(model)
    try:
        return Path(hf_hub_download(name, "config.json", revision=revision)).parent
    except errors.HfHubHTTPError as error:
        raise OSError(str(error)) from None


def tokens(model: Model, path: Path, config: PretrainedConfig, size: Size) -> int | None:
    """Mean tokens of the task's training texts, in a sample; None where texts or tokenizer are not here."""
    if size.prepared is None or path.suffix == ".gguf":
        return None
    try:
        own = AutoTokenizer.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except Exception:  # the library's errors have no common base
        return None
    if len(own) < config.vocab_size / 2:  # made up, where a folder has a config and no tokenizer
        return None
    sample = size.prepared.train.head(SAMPLE)
    frame, _ = encoding.encode(own, sample, model.max_length, size.prepared.classes)
    return round(frame["input_ids"].str.len().mean())


def examples(extent: Extent, run: Run) -> dict[str, dict[str, float]]:
    """Stage: task: examples that go through the encoder in a job of `run`, once per epoch and mask."""
    study, sizes = extent.study, {task: extent.sizes[task] for task in run.tasks}
    learnt = _learnt(study, {task: found.train for task, found in sizes.items()}, study.training.sampling)
    if run.method == "frozen":  # the classifiers' own operations are nothing beside the encoder's
        learnt = dict.fromkeys(sizes, 0.0)
    pruning = study.pruning
    maps = {task: np.zeros((2, 2)) for task in run.tasks}
    planned = masks(maps, pruning.fraction, pruning.fractions, pruning.draws, run.seed)
    draws = sum(mask.draw is not None for mask in planned)
    found: dict[str, dict[str, float]] = {
        "train": learnt,
        "importance": {t: min(study.importance.samples, s.train) for t, s in sizes.items()},
        "prune": {
            t: (len(planned) - draws) * s.validation
            + draws * min(pruning.draw_examples or s.validation, s.validation)
            for t, s in sizes.items()
        },
    }
    return {stage: amounts for stage, amounts in found.items() if of_stage([run], stage)}


def _learnt(study: Study, sizes: dict[str, int], sampling: str) -> dict[str, float]:
    """Expected training examples of each task over all epochs, as `headspec.batching.schedule` draws them."""
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
    size = extent.study.training.batch_size
    of_length = functools.cache(lambda model, tokens: speed.forward(extent.configs[model], tokens, size))
    found: dict[tuple[str, str, str, str], float] = {}
    for job, task, n in itertools.chain(_learnt_and_pruned(extent), _compared(extent), _continued(extent)):
        model, _, kind = job
        cost = PASSES[kind] * n * of_length(model, extent.tokens[model, task])
        found[*job, task] = found.get((*job, task), 0.0) + cost
    return found


def _learnt_and_pruned(extent: Extent) -> Iterator[tuple[Job, str, float]]:
    """(model, stage, pass), task, and its examples that go through the encoder in the study's runs."""
    for run in extent.runs:
        for stage, amounts in examples(extent, run).items():
            for task, n in amounts.items():
                yield (run.model, stage, stage), task, n
    for model, task in sorted(frozen_features(extent.runs)):
        yield (model, "features", "prune"), task, extent.sizes[task].train


def _compared(extent: Extent) -> Iterator[tuple[Job, str, float]]:
    """The same so that tasks can be compared.

    A sentence of the probe counts as an example; stimuli, which are not read here, are left out.
    """
    study, measures = extent.study, extent.study.similarity
    seeds, kinds = len(study.seeds), len(measures.asked("sensitivity"))
    known = [task for task in study.in_order(study.mixtures.pairs) if task in extent.sizes]
    for model, task in itertools.product(extent.configs, known):
        samples = min(measures.samples, extent.sizes[task].train)
        if measures.asked("text_embedding"):
            yield (model, "text_embedding", "prune"), task, samples
        if measures.asked("representations"):
            yield (model, "representations", "prune"), task, seeds * measures.probe_sentences
        if kinds:
            yield (model, "sensitivity", "train"), task, seeds * kinds * samples


def _continued(extent: Extent) -> Iterator[tuple[Job, str, float]]:
    """The same of the sections `iat` and `transfer`, where `methods` has `iat`."""
    study, own, transfer = extent.study, extent.study.iat, extent.study.transfer
    if "iat" not in study.methods:
        return
    done = {run.path for run in study.runs}
    variants = {variant.method: variant for variant in study.variants}
    scored: set[tuple] = set()
    for run in (r for r in study.iat_runs if r.model in extent.configs and {*r.tasks} <= {*extent.sizes}):
        variant = variants.get(run.method, variants["tuned"])
        sizes = {task: extent.sizes[task].train for task in run.tasks}
        branch = (run.model, run.mixture, run.seed, variant.base, variant.delta)
        for task, learnt in _learnt(study, sizes, variant.sampling).items():
            splits = 1 + len(study.tasks[task].further)
            yield (run.model, "evaluate", "prune"), task, splits * extent.sizes[task].validation
            if variant.delta is not None:
                yield (run.model, "retrain", "train"), task, variant.delta * learnt
                if branch not in scored:
                    yield (run.model, "branch", "train"), task, (own.reserve - variant.delta) * learnt
                    samples = min(study.importance.samples, sizes[task])
                    yield (run.model, "branch", "importance"), task, samples
            elif run.path not in done:
                yield (run.model, "train", "train"), task, learnt
        scored.add(branch)
        if run.method == "iat":
            for stage in ("importance", "prune"):
                for task, n in examples(extent, run)[stage].items():
                    yield (run.model, stage, stage), task, n
    fits = transfer.draws * len(transfer.samples)
    known = [task for task in transfer.tasks if task in extent.sizes]
    for run, task in itertools.product(study.transfer_runs, known):
        if run.model in extent.configs:
            validation = extent.sizes[task].validation
            yield (
                (run.model, "transfer", "prune"),
                task,
                validation * (1 + fits * ("full" in transfer.tuning)),
            )
            if "full" in transfer.tuning:
                learnt = sum(transfer.steps * min(transfer.batch_size, n) for n in transfer.samples)
                yield (run.model, "transfer", "train"), task, transfer.draws * learnt
