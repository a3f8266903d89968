"""Checks, before any job starts, that a study's models can answer the prompts of its tasks."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from headspec.config import methods
from headspec.errors import ConfigError, HeadspecError, ModelError
from headspec.models.architectures import WITHOUT_CACHE, continues
from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.folders import present
from headspec.models.pretrained.from_pretrained import location
from headspec.tasks import prompt_checks
from headspec.tasks.kinds.texts.prompting import prompting
from headspec.tasks.kinds.texts.wording import Wording
from headspec.tasks.parts import load_part

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task
    from headspec.config.study import Study
    from headspec.data.prepare import Prepared

#: suffixes of the names of output weights in causal models; the latter is GPT-NeoX's
OUTPUTS = ("lm_head.weight", "embed_out.weight")
#: prefixes of the names of weights in the heads of masked models
HEADS = (
    "cls.predictions.", "lm_head.", "lm_predictions.", "predictions.", "generator_predictions.",
    "vocab_transform.", "head.",
)  # fmt: skip


def check_prompts(study: Study, prepared: Mapping[str, Prepared]) -> None:
    """Raise one HeadspecError for all problems with prompts, if a study has the method `prompted`.

    `prepared` has the tables of tasks that could be read. Jobs check the other tasks, and uncached hub
    models.
    """
    if not methods.prompts(study.methods):
        return
    problems: list[HeadspecError] = []
    wordings: dict[str, tuple[Task, Prepared]] = {}
    for name in dict.fromkeys(name for tasks in study.mixture_tasks.values() for name in tasks):
        task, key = study.tasks[name], f"tasks.{name}"
        if name not in prepared:
            continue
        wrong = [*prompt_checks.fields(key, task, read=True)] if task.prompt is not None else []
        classes, n = prepared[name].classes, len(prepared[name].train)
        if task.shots >= n:
            wrong.append(f"{key}.shots: got {task.shots}, expected fewer than the {n} training examples.")
        wrong += prompt_checks.unlike(key, task.answers, list(classes or ())) if task.answers else []
        problems += map(ConfigError, wrong)
        if not wrong:
            wordings[name] = task, prepared[name]
    for name, model in study.models.items():
        if model.weights != "pretrained":
            problems.append(
                ConfigError(
                    f"models.{name}.weights: got '{model.weights}', expected pretrained, because methods has "
                    "'prompted'"
                )
            )
        try:
            if path := present(model, f"models.{name}"):
                check_model(path, model, f"models.{name}")
                for asked, (task, _) in wordings.items():
                    check_type(path, model, f"models.{name}", task, f"tasks.{asked}")
                problems += _prompts(path, model, f"models.{name}", wordings)
        except HeadspecError as error:
            problems.append(error)
    if problems:
        raise HeadspecError.combined(problems)


def check_model(path: Path, model: Model, key: str) -> None:
    """Raise ModelError if the model at `path` lacks a language-model head."""
    if path.is_dir() and (head := _missing_head(path)):
        raise ModelError(
            f"{key}.source: '{model.source}' has no language-model head ({head}), which prompts "
            "need; expected the weights of the whole model, because methods has 'prompted'"
        )


def check_type(path: Path, model: Model, key: str, task: Task, task_key: str) -> None:
    """Raise ModelError if a task needs a masked language model and this model is causal, or vice versa."""
    config = settings(path, key, model.source)
    kind, causal, prompt = config.get("model_type"), continues(config), task.prompt or ""
    masked = Wording(prompt, ()).masked
    if prompting(task.type).continues and not causal:
        raise ModelError(
            f"{task_key}.type: got '{task.type}', expected classification by a prompt with '{{mask}}', "
            f"because {key} is a masked language model ({kind}) and cannot continue texts"
        )
    if masked and causal:
        raise ModelError(
            f"{task_key}.prompt: got {prompt!r}, expected a prompt without '{{mask}}', because {key} is a "
            f"model that continues texts ({kind})"
        )
    if not masked and not causal:
        raise ModelError(
            f"{task_key}.prompt: got {prompt!r}, expected a prompt with the field '{{mask}}', because "
            f"{key} is a masked language model ({kind})"
        )


def check_scoring(path: Path, model: Model, key: str, task: str) -> None:
    """Raise ModelError if the model cannot read continuations side by side, as the key `task` requires.

    It also raises if texts of `max_length` tokens exceed the model's window of attention.
    """
    config = settings(path, key, model.source)
    if config.get("model_type") in WITHOUT_CACHE:
        raise ModelError(
            f"{task}: whole answers or texts are scored, expected a prompt with answers of one token each, "
            f"because {key} is of type {config['model_type']}, which cannot read several next to each other"
        )
    from transformers import AutoConfig, DynamicCache  # slow to import
    from transformers.cache_utils import DynamicSlidingWindowLayer

    layers = DynamicCache(config=AutoConfig.for_model(**config)).layers
    windows = [layer.sliding_window for layer in layers if isinstance(layer, DynamicSlidingWindowLayer)]
    window = min(windows, default=None)
    if window and model.max_length > window:
        raise ModelError(
            f"{key}.max_length: got {model.max_length}, expected at most {window}, the window of attention "
            f"of '{model.source}', because {task} has whole answers or texts scored"
        )


def _missing_head(path: Path) -> str | None:
    """Return the language-model head missing from weights in a folder, unless it is the embedding."""
    from safetensors import safe_open
    from transformers import AutoConfig  # slow to import

    config = AutoConfig.from_pretrained(**location(path), trust_remote_code=False)
    if (index := path / "model.safetensors.index.json").exists():
        names = list(json.loads(index.read_text())["weight_map"])
    else:
        with safe_open(path / "model.safetensors", framework="np") as weights:
            names = list(weights.keys())
    if continues(config.to_dict()):
        has_head = config.tie_word_embeddings or any(name.endswith(OUTPUTS) for name in names)
        return None if has_head else OUTPUTS[0]
    return None if any(name.startswith(HEADS) for name in names) else "a head that fills masks"


def _prompts(
    path: Path, model: Model, key: str, wordings: Mapping[str, tuple[Task, Prepared]]
) -> Iterator[HeadspecError]:
    """Yield problems with the tokens of prompts and answers, and with a model that cannot score them."""
    from headspec.models.tokenization import tokenizer  # slow to import

    loaded = tokenizer(model, key)
    for name, (task, prepared) in wordings.items():
        classes = prepared.classes if isinstance(prepared.classes, list) else []
        wording = Wording.for_task(task, classes, load_part(task.type, "KIND").asked(task))
        try:
            made = prompting(task.type)(loaded, wording, model.max_length, f"tasks.{name}")
            yield from made.problems(model, key, task, prepared)
            if made.scored:
                check_scoring(path, model, key, made.scored)
        except ModelError as error:
            yield from (ModelError(f"{problem} (of {key})") for problem in error.errors)
