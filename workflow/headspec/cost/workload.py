"""The size of a study before it runs, as far as it is known here: examples, configs, tokens."""

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from headspec.config.methods import prompts
from headspec.config.runs import Run
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.cost import throughput, translated
from headspec.cost.memory import BERT_LARGE
from headspec.data import prepare, tasks_read
from headspec.data.prepare import Prepared
from headspec.data.sources import columns, readers
from headspec.data.tasks_read import TasksRead
from headspec.errors import DataError, HeadspecError, ModelError, listing
from headspec.models.architectures import caches
from headspec.models.batching import ATTENDED, LEAST_SHARED
from headspec.models.devices import SIZES
from headspec.models.pretrained import config_json, folders
from headspec.models.pretrained.config_json import heads_by_layer
from headspec.models.pretrained.folders import folder_for_planning
from headspec.models.pretrained.from_pretrained import location, silence
from headspec.models.pretrained.pooling import Pooled, chosen_pooling
from headspec.pipeline.layout import Layout
from headspec.tasks import data
from headspec.tasks.kinds.texts.counts import counts
from headspec.tasks.registry import kind

TOKENS = {"single": 25, "pair": 50}  # assumed for a single text and a pair, if they cannot be counted
SAMPLE = 300  # texts per task in which tokens are counted


@dataclass(frozen=True)
class Size:
    """Numbers of examples of a task in each split, and a sample of its `texts` if they were read."""

    train: int
    validation: int
    prepared: Prepared | None
    texts: pd.DataFrame | None
    note: str  #: source of the numbers


class Lengths(NamedTuple):
    """Mean numbers of tokens of a task's examples for a model, in a sample."""

    example: int
    target: int = 0  #: of a translation
    prompt: int = 0  #: for the method `prompted`
    shared: int = 0  #: prefix of all prompts, if passes under masks read it once
    scored: int = 0  #: of answers or texts that the language-model head scores
    counted: bool = True  #: whether they were counted rather than assumed


@dataclass
class Extent:
    """The known parts of a study; `problems` lists what is missing."""

    study: Study
    sizes: dict[str, Size] = field(default_factory=dict)
    configs: dict[str, PretrainedConfig] = field(default_factory=dict)
    #: by model and task
    lengths: dict[tuple[str, str], Lengths] = field(default_factory=dict)
    pooled: dict[str, Pooled] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    #: cache of counted operations
    counts: dict[tuple[object, ...], float] = field(default_factory=dict)

    @property
    def runs(self) -> list[Run]:
        """The runs whose model and tasks are known."""
        return [r for r in self.study.runs if r.model in self.configs and {*r.tasks} <= {*self.sizes}]

    @functools.cached_property
    def layout(self) -> Layout:
        return Layout(self.study)

    @functools.cached_property
    def examples(self) -> tuple[dict[str, int], dict[str, int]]:
        """Numbers of training and validation examples of each task."""
        sizes = self.sizes.items()
        return {task: size.train for task, size in sizes}, {task: size.validation for task, size in sizes}

    def knows(self, wildcards: Mapping[str, str]) -> bool:
        """Return whether the model and tasks in the wildcards of a job are known."""
        mixture = self.layout.study.tasks_by_mixture.get(wildcards.get("mixture", ""), ())
        tasks = [wildcards["task"]] if "task" in wildcards else mixture
        return wildcards.get("model") in {None, *self.configs} and {*tasks} <= {*self.sizes}

    @property
    def mean_tokens(self) -> int:
        """Mean tokens per example or prompt, over models and tasks."""
        every = [n.example for n in self.lengths.values()]
        every += [n.prompt for n in self.lengths.values() if n.prompt]
        return round(sum(every) / max(len(every), 1))

    def heads(self, model: str) -> int:
        """Return the number of heads of all layers; that of BERT-large if the config does not tell."""
        kinds = heads_by_layer(self.configs[model].to_dict())
        return sum(map(sum, kinds.values())) if kinds else BERT_LARGE.layers * BERT_LARGE.heads

    def forward(
        self, model: str, task: str, prompted: bool, evaluated: bool = False, once: bool = False
    ) -> float:
        """Return the operations of an example's forward pass.

        `evaluated` translations are written; with `once`, a batch reads the shared prefix of prompts once.
        """
        n, size = self.lengths[model, task], self.study.training.batch_size
        if n.target and evaluated:
            beams = kind(self.study.tasks[task]).beams(self.study.tasks[task])
            return self.count(translated.written, model, n.example, n.target, size, beams)
        if n.target:
            return self.count(translated.teacher_forced, model, n.example, n.target, size)
        if not prompted:
            return self.count(throughput.forward, model, n.example, size)
        config = self.configs[model]
        head = 2.0 * n.scored * int(config.hidden_size * config.vocab_size)
        whole = head + self.count(throughput.forward, model, n.prompt, size)
        if not (once and n.shared):
            return whole
        rows = max(1, SIZES["cpu"][0] // (n.prompt - n.shared + n.shared // ATTENDED))  # more on a GPU
        return whole - self.count(throughput.forward, model, n.shared, size) * (1 - 1 / rows)

    def written(self, model: str, task: str) -> float:
        """Return the operations of the tokens that a decoder writes after an example's prompt, at most.

        A prompt is read again for each text but one.
        """
        settings = self.study.tasks[task]
        new, texts = kind(settings).new_tokens(settings), kind(settings).texts(settings)
        if not new:
            return 0.0
        n, size, config = self.lengths[model, task], self.study.training.batch_size, self.configs[model]
        whole, read = (
            self.count(throughput.forward, model, tokens, size) for tokens in (n.prompt + new, n.prompt)
        )
        return texts * (whole + 2.0 * new * int(config.hidden_size * config.vocab_size)) - read

    def count(self, count: Callable[..., float], model: str, *numbers: int) -> float:
        """Return the result of `count` for the config of a model, cached."""
        if (key := (count, model, *numbers)) not in self.counts:
            self.counts[key] = count(self.configs[model], *numbers)
        return self.counts[key]


def study_extent(study: Study, plan: TasksRead | None = None) -> Extent:
    """Return sizes of tasks, model configs and tokens, as far as known; `plan` has the tasks read so far."""
    silence()
    plan = plan or tasks_read.prepare_possible(study)[0]
    extent = Extent(study)
    for name in sorted(study.tasks, key=lambda name: study.tasks[name].pairs_of is not None):
        try:
            extent.sizes[name] = size(study, name, plan, extent.sizes)
        except DataError as error:
            extent.problems.append(str(error))
    for name, model in study.models.items():
        try:
            path, extent.configs[name] = config(model, f"models.{name}")
            if path:
                extent.pooled[name] = chosen_pooling(path, model, f"models.{name}")
        except HeadspecError as error:
            extent.problems.append(str(error))
            continue
        tokenizer = _tokenizer(path, extent.configs[name])
        for task, its in extent.sizes.items():
            extent.lengths[name, task] = _lengths(study, name, task, extent.configs[name], its, tokenizer)
    return extent


def _lengths(
    study: Study, model: str, task: str, config: PretrainedConfig, size: Size,
    tokenizer: PreTrainedTokenizerBase | None,
) -> Lengths:  # fmt: skip
    """Return the numbers of tokens of a task for a model, counted if its texts and tokenizer are here."""
    settings, most = study.tasks[task], study.models[model].max_length
    counter, guess = counts(settings), min(TOKENS[settings.paradigm], most)
    counted = counter.tokens(tokenizer, most, settings, size.texts)
    example, target = counted or (guess, guess * kind(settings).writes)
    lengths = Lengths(example, target, counted=counted is not None)
    if not prompts(study.methods):
        return lengths
    prompt, shared = counter.prompt_tokens(tokenizer, most, settings, size.texts)
    shared *= shared >= LEAST_SHARED and caches(config.to_dict())
    prompt = prompt or most
    scored = counter.scored(settings, tokenizer, prompt)
    return lengths._replace(prompt=prompt, shared=shared, scored=scored)


def size(study: Study, name: str, plan: TasksRead, others: dict[str, Size]) -> Size:
    """Return the examples of a task, read and split as in its job, or else the numbers in the config.

    Raises DataError if neither is known.
    """
    task = study.tasks[name]
    parent = others.get(task.pairs_of or "")
    texts = parent.texts if parent else None
    try:
        if task.pairs_of and texts is None:
            raise DataError(f"tasks.{task.pairs_of} cannot be read here")
        if (prepared := plan.prepared.get(name)) is not None:
            if texts is None:
                texts = sample(name, task)
            else:  # random pairs of the parent's texts
                texts = texts.assign(text_b=texts["text_a"].sample(frac=1, random_state=0).to_numpy())
        else:
            with folders.asked_once(task.source):
                prepared = prepare.prepare(name, task, study.data_seed, parent.prepared if parent else None)
            texts = prepared.train.head(SAMPLE)
        return Size(len(prepared.train), len(prepared.validation), prepared, texts, "as read here")
    except DataError as error:
        train = task.train_examples or (parent and parent.train)
        validation = task.validation_examples or (parent and parent.validation)
        if not (train and validation):
            numbers = {"train_examples": train, "validation_examples": validation}
            lacking = listing(f"tasks.{name}.{key}" for key, value in numbers.items() if not value)
            raise DataError(
                f"{error}\n{lacking}: missing, expected a number to plan without the texts"
            ) from None
        return Size(train, validation, None, None, "from the config: the texts cannot be read here")


def sample(name: str, task: Task) -> pd.DataFrame:
    """Return texts of at most `SAMPLE` training rows, evenly spaced in a task's source, without empty texts.

    Columns are example, text_a, text_b (null for single texts), and label for translation.
    """
    key, where = f"tasks.{name}", readers.name_of(task, task.train_split)
    frame = columns.filtered(readers.read_split(task, key, task.train_split), task, key, where)
    frame = frame.iloc[np.linspace(0, len(frame) - 1, min(SAMPLE, len(frame))).astype(int)]
    texts = data.reader(task.type).texts(frame, task, key, where)
    full = (texts.dropna(axis="columns").map(str.strip) != "").all(axis="columns")
    return texts[full].reset_index(drop=True).reset_index(names="example")


def config(model: Model, key: str) -> tuple[Path | None, PretrainedConfig]:
    """Return a model's folder, which may lack weights, and its config; no folder for described models.

    Raises ModelError if the config cannot be loaded.
    """
    if config_json.is_described(model):
        return None, AutoConfig.for_model(**config_json.described_config(model))
    try:
        path = folder_for_planning(model, key)
        return path, AutoConfig.from_pretrained(**location(path), trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(
            f"{key}.source: the config.json of '{model.source}' cannot be loaded ({type(error).__name__})"
        ) from None


def _tokenizer(path: Path | None, config: PretrainedConfig) -> PreTrainedTokenizerBase | None:
    """Return the tokenizer in a model's folder; None if it is missing or cannot be loaded."""
    if path is None:
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(**location(path), trust_remote_code=False)
    except Exception:  # the library's errors have no common base class
        return None
    # without tokenizer files, transformers makes a stub
    return tokenizer if len(tokenizer) >= config.vocab_size / 2 else None
