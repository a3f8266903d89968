"""The size of a study before anything runs: examples of tasks, configs of models, tokens.

Tasks are read as the jobs will read them, if they are available here; what is missing is named and left out.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pandas as pd
from transformers import AutoConfig, AutoTokenizer, PretrainedConfig, PreTrainedTokenizerBase

from headspec import characters
from headspec.config import hub
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
from headspec.models.architectures import remembers
from headspec.models.batching import ATTENDED, LEAST_SHARED
from headspec.models.devices import SIZES
from headspec.models.pretrained import described
from headspec.models.pretrained.config_json import heads_by_layer
from headspec.models.pretrained.folders import planned as planned_folder
from headspec.models.pretrained.from_pretrained import location, silence
from headspec.models.pretrained.pooling import Pooled, pooled
from headspec.models.tokens import tokenization
from headspec.pipeline.layout import Layout
from headspec.prompts.wording import Wording, conversation
from headspec.tasks import data
from headspec.tasks.continuations import pair_types
from headspec.tasks.kinds import kind
from headspec.tasks.translation import classes as translation
from headspec.tasks.translation import tokens as text_encoding

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
    plan = plan or planned.attempt(study)[0]
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
            if study.tasks[task].type == translation.NAME:
                both = translations(tokenizer, model.max_length, study.tasks[task], task_size.texts)
                extent.counted[name, task] = both is not None
                guess = min(TOKENS["single"], model.max_length)
                extent.tokens[name, task], extent.targets[name, task] = both or (guess, guess)
                continue
            length = tokens(tokenizer, model.max_length, task_size.texts) if tokenizer else None
            extent.counted[name, task] = length is not None
            extent.tokens[name, task] = length or min(TOKENS[study.tasks[task].paradigm], model.max_length)
            if "prompted" in study.methods:
                length, extent.shared[name, task] = prompt_tokens(
                    study.tasks[task], task_size.texts, tokenizer, model.max_length
                )
                extent.prompts[name, task] = length or model.max_length
                if not remembers(extent.configs[name].to_dict()):
                    extent.shared[name, task] = 0
                extent.scored[name, task] = scored(study.tasks[task], tokenizer, extent.prompts[name, task])
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
            texts = texts if task.type == translation.NAME else texts.drop(columns="label")
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
    frame = columns.filtered(readers.read(task, key, task.train_split), task, key, where)
    frame = frame.iloc[np.linspace(0, len(frame) - 1, min(SAMPLE, len(frame))).astype(int)]
    texts = data.of(task).texts(frame, task, key, where)
    full = (texts.dropna(axis="columns").map(str.strip) != "").all(axis="columns")
    return texts[full].reset_index(drop=True).reset_index(names="example")


def prompts(
    task: Task, texts: pd.DataFrame | None, tokenizer: PreTrainedTokenizerBase | None
) -> pd.DataFrame | None:
    """What a model reads of `texts`: each after demonstrations, for which the texts that follow it stand.

    Of minimal pairs, the first text, and what the second does not begin with as well. Answers of a letter
    stand for those that are in columns.
    """
    if texts is None or tokenizer is None:
        return None
    if task.type == pair_types.TEXTS:
        words = zip(texts["text_a"].str.split(), texts["text_b"].str.split(), strict=True)
        return texts.assign(text_b=[" ".join(b[len(os.path.commonprefix([a, b])) :]) for a, b in words])
    in_columns = task.type == pair_types.ANSWERS
    if not (task.prompt and (task.answers or in_columns)) or (task.chat and tokenizer.chat_template is None):
        return None
    classes = list(task.answers or ())
    wording = Wording.of(task, classes)
    labelled = texts.assign(label=np.resize(classes or ['[" a", " b"]'], len(texts)))
    whole = "".join(wording.answers) if scored(task, tokenizer, 0) and not in_columns else ""

    def read(i: int) -> str:
        shown = labelled.iloc[(i + np.arange(1, task.shots + 1)) % len(labelled)]
        of = wording.showing(shown, classes)
        text = of.filled(labelled["text_a"][i], labelled["text_b"][i], "?")
        return (conversation(tokenizer, of.turns, text) if task.chat else text) + whole

    return texts.assign(text_a=[read(i) for i in range(len(labelled))], text_b=None)


def prompt_tokens(
    task: Task, texts: pd.DataFrame | None, tokenizer: PreTrainedTokenizerBase | None, most: int
) -> tuple[int | None, int]:
    """Mean tokens of prompts, if they can be counted, and how many of them are demonstrations."""
    if texts is None or tokenizer is None:
        return None, 0
    most *= 2 if task.type == pair_types.TEXTS else 1
    whole = tokens(tokenizer, most, prompts(task, texts, tokenizer))
    if not task.shots:
        return whole, 0
    alone = tokens(tokenizer, most, prompts(task.model_copy(update={"shots": 0}), texts, tokenizer))
    shown = whole - alone if whole and alone else 0
    return whole, shown if shown >= LEAST_SHARED else 0


def scored(task: Task, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
    """Tokens of a prompt that the head of the language model scores; 0 where an answer is the next token.

    Parameters
    ----------
    length : tokens of the prompt; all of those of minimal pairs are scored
    """
    if task.type == pair_types.TEXTS:
        return length
    if task.type == pair_types.ANSWERS:
        return len(pair_types.CLASSES)
    answers = list((task.answers or {}).values())
    if tokenizer is None or not answers or Wording(task.prompt or "", ()).masked:
        return 0
    lengths = list(map(len, tokenizer(answers, add_special_tokens=False)["input_ids"]))
    return sum(lengths) if max(lengths) > 1 else 0


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


def tokens(tokenizer: PreTrainedTokenizerBase, most: int, texts: pd.DataFrame | None) -> int | None:
    """Mean tokens of a table of texts, at most `most` each; None without texts."""
    if texts is None:
        return None

    def beginning(text: str | None) -> str | None:
        """As many words as there are tokens at most: a word has a token, and the tokenizer cuts the rest."""
        words = text.split(maxsplit=most) if text else []
        return " ".join(words[:most]) if len(words) > most else text

    cut = texts.assign(**{column: texts[column].map(beginning) for column in ("text_a", "text_b")})
    frame, _ = tokenization.encode(tokenizer, cut, most, None)
    return round(frame["input_ids"].str.len().mean())


def translations(
    tokenizer: PreTrainedTokenizerBase | None, most: int, task: Task, texts: pd.DataFrame | None
) -> tuple[int, int] | None:
    """Mean tokens of sources and targets, at most `most` each; None without texts.

    Where the vocabulary is still to be made, every word and mark counts as one, with a language before the
    source and an end after both.
    """
    if texts is None:
        return None
    if tokenizer is None:
        counts = [texts[side].map(characters.words).str.len() for side in ("text_a", "label")]
        source, target = (n.clip(upper=most - 1).mean() for n in counts)
        return round(source + 2), round(target + 1)
    classes = text_encoding.completed(tokenizer, {"type": task.type} | vars(task), most, "tasks")
    frame, _ = tokenization.encode(tokenizer, texts, most, classes)
    return round(frame["input_ids"].str.len().mean()), round(frame["target_ids"].str.len().mean())
