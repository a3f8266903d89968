"""How much a study is: its jobs, examples, tokens and operations, counted before anything runs.

What a job would read is read here too, where it can be; what is missing is named, and left out.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig

from headspec import encoding, speed, tasks
from headspec.architectures import ARCHITECTURES, folder, hub_name
from headspec.errors import DataError, EncoderError, HeadspecError, listing
from headspec.masks import masks
from headspec.speed import PASSES
from headspec.study import Model, Run, Study
from headspec.tasks import Prepared

FIGURES = ("importance", "matrix", "curves")  # of each model, mixture and method
TOKENS = {"single": 25, "pair": 50}  # of a single text, and of a pair, where they cannot be counted
SAMPLE = 300  # texts per task whose tokens are counted
#: stage, and what is computed in it: a frozen encoder is evaluated, and its features learnt from
WORK = [
    ("train", "train"), ("train", "prune"), ("importance", "importance"), ("prune", "prune"),
    ("text_embedding", "prune"), ("representations", "prune"), ("sensitivity", "train"),
]  # fmt: skip


def jobs(study: Study) -> dict[str, int]:
    """Number of jobs in each stage of a study of which nothing is done yet."""
    runs = study.runs
    used = {task for run in runs for task in run.tasks}
    parents = {study.tasks[task].pairs_of for task in used} - {None}
    drawn = {(run.model, run.mixture, run.method) for run in runs if run.method != "single"}
    found = {
        "data": len(used | parents),
        "encode": len(study.models) * len(used),
        **{stage: len(of_stage(runs, stage)) for stage in PASSES},
        "dissociation": 1,
        "reliability": 1,
        "figures": 2 + len(FIGURES) * len(drawn),
    }
    if study.similarity.measures:
        found |= _jobs_of_similarity(study, found["figures"])
    return _with_iat(study, found) if "iat" in study.methods else found


def _with_iat(study: Study, found: dict[str, int]) -> dict[str, int]:
    """The jobs `found`, and those of the sections `iat` and `transfer`."""
    own, transfer, seeds = study.iat, study.transfer, len(study.seeds)
    models, mixtures = len(study.models), len(own.mixtures)
    groups = models * mixtures * seeds
    trained = {run.path for run in study.runs}
    branches = {(variant.base, variant.delta) for variant in study.variants if variant.heads}
    retrained = {variant.method for variant in study.variants if variant.heads}
    plain = [r for r in study.iat_runs if r.method not in retrained and r.path not in trained]
    further = sum(len(study.tasks[t].further) for t in {t for r in study.iat_runs for t in r.tasks})
    encoders = len(study.transfer_runs) * len(transfer.tasks)
    used = {task for run in study.runs for task in run.tasks}
    learnt = {t for t in transfer.tasks} | {t for r in plain for t in r.tasks}
    swept = len({(v.alpha, v.delta) for v in study.variants if v.heads == "top"}) > 1
    more = {
        "data": len(learnt - used),
        "encode": models * len(learnt - used),
        "split": further,
        "encode_split": models * further,
        "train": len(plain),
        "branch": groups * len(branches),
        "retrain": groups * len(retrained),
        "evaluate": len(study.iat_runs),
        "importance": groups,
        "prune": groups,
        **dict.fromkeys(("iat_scores", "improvement", "iat_dissociation", "specialization"), 1),
        "draws": len(transfer.tasks),
        "transfer": encoders,
        "transfer_scores": bool(encoders),
        "figures": models * (mixtures * (2 + swept) + len(transfer.tasks)),
    }
    return found | {rule: found.get(rule, 0) + n for rule, n in more.items() if n}


def _jobs_of_similarity(study: Study, figures: int) -> dict[str, int]:
    """Jobs of the rules that compare tasks; `figures` are those of the rest."""
    measures, models = study.similarity, len(study.models)
    runs = models * len(study.seeds)
    probe, brain = bool(measures.asked("representations")), bool(measures.asked("encoding"))
    found = {
        "probe": int(probe),
        "stimuli": int(brain),
        "nuisance": int(brain),
        "voxels": int(brain),
        "encode_texts": models * (probe + brain),
        "text_embedding": models * bool(measures.asked("text_embedding")),
        "representations": runs * (probe + brain),
        "sensitivity": runs * len(measures.asked("sensitivity")),
        "encoding": runs * brain,
        "similarity": 1,
        "correlation": 1,
        "figures": figures + 1 + len(measures.measures) + models * (1 + brain),
    }
    return {rule: n for rule, n in found.items() if n}


def of_stage(runs: list[Run], stage: str) -> list[Run]:
    """Those of `runs` that have a job in `stage`: pruning compares the tasks of a mixture."""
    return [run for run in runs if stage != "prune" or run.method != "single"]


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
    if run.method == "frozen":  # features are extracted once
        learnt = {task: float(found.train) for task, found in sizes.items()}
    else:
        learnt = _learnt(study, {task: found.train for task, found in sizes.items()})
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


def _learnt(study: Study, sizes: dict[str, int]) -> dict[str, float]:
    """Expected training examples of each task over all epochs, as `headspec.batching.schedule` draws them."""
    training = study.training
    if training.sampling == "proportional":
        return {task: float(training.epochs * n) for task, n in sizes.items()}
    steps = np.array([-(-n // training.batch_size) for n in sizes.values()])
    epochs = np.arange(training.epochs)
    powers = 1 - 0.8 * epochs / max(training.epochs - 1, 1)
    if training.sampling == "sqrt":
        powers = np.full(training.epochs, 0.5)
    weights = steps[None] ** powers[:, None]  # (epochs, tasks)
    drawn = steps.sum() * (weights / weights.sum(1, keepdims=True)).sum(0)
    return {task: d * n / s for (task, n), d, s in zip(sizes.items(), drawn, steps, strict=True)}


def operations(extent: Extent) -> dict[tuple[str, str, str], float]:
    """(model, stage, pass of `PASSES`): floating-point operations of all its jobs."""
    size = extent.study.training.batch_size
    of_length = functools.cache(lambda model, tokens: speed.forward(extent.configs[model], tokens, size))
    cost = {(model, task): of_length(model, n) for (model, task), n in extent.tokens.items()}
    found = dict.fromkeys([(m, s, p) for m in extent.configs for s, p in WORK], 0.0)
    for run in extent.runs:
        for stage, amounts in examples(extent, run).items():
            kind = "prune" if (stage, run.method) == ("train", "frozen") else stage
            found[run.model, stage, kind] += PASSES[kind] * sum(
                n * cost[run.model, task] for task, n in amounts.items()
            )
    for key, amounts in _compared(extent).items():
        found[key] += PASSES[key[2]] * sum(n * cost[key[0], task] for task, n in amounts.items())
    return found


def _compared(extent: Extent) -> dict[tuple[str, str, str], dict[str, float]]:
    """(model, stage, pass): task: its examples that go through the encoder so that tasks can be compared.

    A sentence of the probe counts as an example; stimuli, which are not read here, are left out.
    """
    study, measures = extent.study, extent.study.similarity
    tasks = [task for task in study.in_order(study.mixtures.pairs) if task in extent.sizes]
    samples = {task: float(min(measures.samples, extent.sizes[task].train)) for task in tasks}
    seeds, kinds = len(study.seeds), len(measures.asked("sensitivity"))
    found = {}
    for model in extent.configs:
        if measures.asked("text_embedding"):
            found[model, "text_embedding", "prune"] = samples
        if measures.asked("representations"):
            probe = float(seeds * measures.probe_sentences)
            found[model, "representations", "prune"] = dict.fromkeys(tasks, probe)
        if kinds:
            found[model, "sensitivity", "train"] = {t: seeds * kinds * n for t, n in samples.items()}
    return found
