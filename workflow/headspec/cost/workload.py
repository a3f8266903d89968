"""The size of a study before anything runs: examples of tasks, configs of models, tokens.

Tasks are read as the jobs will read them, if they are available here; what is missing is named and left out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from headspec.config import hub
from headspec.config.methods import prompts
from headspec.config.runs import Run
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.cost import throughput, translated
from headspec.cost.memory import BERT_LARGE
from headspec.data import planned, prepare
from headspec.data.planned import Planned
from headspec.data.prepare import Prepared
from headspec.data.sources import columns, readers
from headspec.errors import DataError, EncoderError, HeadspecError, listing
from headspec.models.architectures import caches
from headspec.models.batching import ATTENDED, LEAST_SHARED
from headspec.models.devices import SIZES
from headspec.models.pretrained import described
from headspec.models.pretrained.config_json import heads_by_layer
from headspec.models.pretrained.folders import planned as planned_folder
from headspec.models.pretrained.from_pretrained import location, silence
from headspec.models.pretrained.pooling import Pooled, pooled
from headspec.pipeline.layout import Layout
from headspec.tasks import data
from headspec.tasks.kinds import counts, kind

TOKENS = {"single": 25, "pair": 50}  # in a single text and in a pair, if they cannot be counted
SAMPLE = 300  # texts per task in which tokens are counted


@dataclass(frozen=True)
class Size:
    """Examples of a task in each split; `prepared` and a sample of `texts` if they were read.

    `note` names the source of the numbers.
    """

    train: int
    validation: int
    prepared: Prepared | None
    texts: pd.DataFrame | None
    note: str


@dataclass
class Extent:
    """What is known of a study, filled in step by step; `problems` lists what is missing."""

    study: Study
    sizes: dict[str, Size] = field(default_factory=dict)
    configs: dict[str, PretrainedConfig] = field(default_factory=dict)
    #: (model, task): tokens per example
    tokens: dict[tuple[str, str], int] = field(default_factory=dict)
    counted: dict[tuple[str, str], bool] = field(default_factory=dict)
    #: of translation, tokens of the target
    targets: dict[tuple[str, str], int] = field(default_factory=dict)
    #: the same of prompts, for the method `prompted`
    prompts: dict[tuple[str, str], int] = field(default_factory=dict)
    #: the first of these, if all prompts of a task begin with them, and passes under masks read them once
    shared: dict[tuple[str, str], int] = field(default_factory=dict)
    #: tokens of answers or texts in them that are scored by the head of the language model
    scored: dict[tuple[str, str], int] = field(default_factory=dict)
    pooled: dict[str, Pooled] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)

    @property
    def runs(self) -> list[Run]:
        """The runs whose model and tasks are known."""
        return [r for r in self.study.runs if r.model in self.configs and {*r.tasks} <= {*self.sizes}]

    @functools.cached_property
    def layout(self) -> Layout:
        return Layout(self.study)

    def knows(self, wildcards: Mapping[str, str]) -> bool:
        """Whether the model and the tasks of a job, as far as its wildcards name them, are known."""
        mixture = self.layout.mixtures.get(wildcards.get("mixture", ""), ())
        tasks = [wildcards["task"]] if "task" in wildcards else mixture
        return wildcards.get("model") in {None, *self.configs} and {*tasks} <= {*self.sizes}

    def heads(self, model: str) -> int:
        """Heads of all layers."""
        kinds = heads_by_layer(self.configs[model].to_dict())
        return sum(map(sum, kinds.values())) if kinds else BERT_LARGE.layers * BERT_LARGE.heads

    @functools.cached_property
    def forward(self) -> Callable[..., float]:
        """Operations of an example's forward pass.

        A function of a model, a task, whether it is prompted, whether it is evaluated, which of translations
        writes them, and whether what all prompts begin with is read once for a batch.
        """
        size = self.study.training.batch_size
        of_length = functools.cache(lambda model, n: throughput.forward(self.configs[model], n, size))
        known = functools.cache(
            lambda model, source, target: translated.known(self.configs[model], source, target, size)
        )
        written = functools.cache(
            lambda model, source, target, beams: translated.written(
                self.configs[model], source, target, size, beams
            )
        )

        def operations(
            model: str, task: str, prompted: bool, evaluated: bool = False, once: bool = False
        ) -> float:
            if target := self.targets.get((model, task)):
                of_task = self.study.tasks[task]
                source, beams = self.tokens[model, task], kind(of_task).beams(of_task)
                return written(model, source, target, beams) if evaluated else known(model, source, target)
            config, n = self.configs[model], (self.prompts if prompted else self.tokens)[model, task]
            head = 2 * config.hidden_size * config.vocab_size * self.scored.get((model, task), 0) * prompted
            if not (prefix := self.shared.get((model, task), 0) * prompted * once):
                return head + of_length(model, n)
            rows = max(1, SIZES["cpu"][0] // (n - prefix + prefix // ATTENDED))  # more on a GPU
            return head + of_length(model, n) - of_length(model, prefix) * (1 - 1 / rows)

        return operations


def read(study: Study, plan: Planned | None = None) -> Extent:
    """Read the sizes of tasks, the configs of models and the tokens, as far as they are available here.

    Parameters
    ----------
    plan : the tasks as they were read, to read them no second time
    """
    silence()
    plan = plan or planned.prepare_possible(study)[0]
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
                extent.pooled[name] = pooled(path, model, f"models.{name}")
        except HeadspecError as error:
            extent.problems.append(str(error))
            continue
        tokenizer = _tokenizer(path, extent.configs[name])
        for task, task_size in extent.sizes.items():
            of, most = study.tasks[task], model.max_length
            counted, guess = counts(of), min(TOKENS[of.paradigm], most)
            found = counted.tokens(tokenizer, most, of, task_size.texts)
            extent.counted[name, task] = found is not None
            extent.tokens[name, task], target = found or (guess, guess * kind(of).writes)
            if target:
                extent.targets[name, task] = target
            if prompts(study.methods):
                length, shared = counted.prompt_tokens(tokenizer, most, of, task_size.texts)
                shares = shared >= LEAST_SHARED and caches(extent.configs[name].to_dict())
                extent.prompts[name, task], extent.shared[name, task] = length or most, shares * shared
                extent.scored[name, task] = counted.scored(of, tokenizer, extent.prompts[name, task])
    return extent


def size(study: Study, name: str, plan: Planned, known: dict[str, Size]) -> Size:
    """Examples of a task: read and split as its job will do it, or else the numbers in the config."""
    task = study.tasks[name]
    parent = known.get(task.pairs_of or "")
    texts = parent.texts if parent else None
    try:
        if task.pairs_of and texts is None:
            raise DataError(f"tasks.{task.pairs_of} cannot be read here")
        if (prepared := plan.prepared.get(name)) is not None:
            texts = sample(name, task) if texts is None else paired(texts)
        else:
            with hub.asked_once(task.source):
                prepared = prepare.prepare(name, task, study.data_seed, parent.prepared if parent else None)
            texts = prepared.train.head(SAMPLE)
        return Size(len(prepared.train), len(prepared.validation), prepared, texts, "as read here")
    except DataError as error:
        limits = {"train_examples": task.train_examples, "validation_examples": task.validation_examples}
        for split in ("train", "validation") if parent else ():
            limits[f"{split}_examples"] = limits[f"{split}_examples"] or getattr(parent, split)
        lacking = [f"tasks.{name}.{key}" for key, value in limits.items() if value is None]
        if lacking:
            raise DataError(
                f"{error}\n{listing(lacking)}: missing, expected a number to plan without the texts"
            ) from None
        train, validation = (int(value) for value in limits.values() if value)
        return Size(train, validation, None, None, "from the config: the texts cannot be read here")


def sample(name: str, task: Task) -> pd.DataFrame:
    """Texts of `SAMPLE` training rows, evenly spaced in a task's source.

    Rows with an empty text, which are never trained on, are left out.

    Returns
    -------
    DataFrame
        Columns example, text_a, text_b (null for single texts), and of translation label.
    """
    key, where = f"tasks.{name}", readers.name_of(task, task.train_split)
    frame = columns.filtered(readers.read_split(task, key, task.train_split), task, key, where)
    frame = frame.iloc[np.linspace(0, len(frame) - 1, min(SAMPLE, len(frame))).astype(int)]
    texts = data.reader(task.type).texts(frame, task, key, where)
    full = (texts.dropna(axis="columns").map(str.strip) != "").all(axis="columns")
    return texts[full].reset_index(drop=True).reset_index(names="example")


def paired(texts: pd.DataFrame) -> pd.DataFrame:
    """Random pairs of single texts."""
    return texts.assign(text_b=texts["text_a"].sample(frac=1, random_state=0).to_numpy())


def config(model: Model, key: str) -> tuple[Path | None, PretrainedConfig]:
    """The folder of a model, which need not hold weights, and its config; no folder if that describes it."""
    if described.is_described(model):
        return None, AutoConfig.for_model(**described.config(model))
    try:
        path = planned_folder(model, key)
        if path.suffix == ".gguf":
            loaded = AutoConfig.from_pretrained(path.parent, gguf_file=path.name)
        else:
            loaded = AutoConfig.from_pretrained(path, local_files_only=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        raise EncoderError(
            f"{key}.source: the config.json of '{model.source}' cannot be loaded ({type(error).__name__})"
        ) from None
    return path, loaded


def _tokenizer(path: Path | None, config: PretrainedConfig) -> PreTrainedTokenizerBase | None:
    """The tokenizer in a model's folder; None if it is missing here."""
    if path is None:
        return None
    try:
        tokenizer = AutoTokenizer.from_pretrained(**location(path), trust_remote_code=False)
    except Exception:  # the library's errors have no common base
        return None
    # transformers makes a stub without tokenizer files
    return tokenizer if len(tokenizer) >= config.vocab_size / 2 else None
