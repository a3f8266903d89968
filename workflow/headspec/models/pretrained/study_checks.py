"""Checks of the models of a study against its tasks; jobs do not import this module."""

from __future__ import annotations

import itertools
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headspec import plugins
from headspec.config.measures.heads import MEASURES
from headspec.errors import HeadspecError, ModelError, listing
from headspec.models.architectures import continues, writes
from headspec.models.pretrained import checks, quantized
from headspec.models.pretrained.checks import check_model
from headspec.models.pretrained.config_json import config_of, is_described
from headspec.models.pretrained.folders import present
from headspec.models.pretrained.model_files import has_vocabulary
from headspec.tasks.parts import load_part
from headspec.tasks.registry import kind

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task
    from headspec.config.study import Study


def check_tasks(model: Model, key: str, tasks: Mapping[str, Task]) -> None:
    """Raise ModelError if a model with local files cannot learn `tasks`, or may not list `heads`."""
    config = config_of(model, key) or {}
    model_type = config["model_type"]
    where, what = (f"{key}.source", f"'{model.source}'") if model.source else (f"{key}.transformer", "it")
    if model.heads and writes(config):
        raise ModelError(
            f"{key}.heads: got {listing(model.heads)} for an encoder-decoder ({model_type}), whose heads "
            "have a kind of attention besides layer and head; remove it"
        )
    for name, task in tasks.items():
        if kind(task).writes and not writes(config):
            raise ModelError(
                f"{key}.source: '{model.source}' is of type {model_type}, which has no cross-attention and "
                f"writes no texts for tasks.{name}; expected an encoder-decoder, such as Marian or T5"
            )
        if writes(config) and not kind(task).writes:
            raise ModelError(
                f"{where}: {what} is of type {model_type}, an encoder-decoder, but tasks.{name} is "
                f"a {task.type} task; expected only tasks of translation, or another model"
            )


def check_attention(model: Model, key: str, kinds: Sequence[str]) -> None:
    """Raise ModelError if `gates.attention` names `kinds` that a model does not have."""
    config = config_of(model, key) or {}
    if kinds and not writes(config):
        raise ModelError(
            f"gates.attention: got {listing(kinds)}, but {key}.source '{model.source}' is of type "
            f"{config['model_type']}, which has one kind of attention; remove it"
        )


def check_rankings(model: Model, key: str, rankings: Mapping[str, str]) -> None:
    """Raise ModelError if a model is no decoder but one of `rankings`, {config key: ranking}, needs one."""
    config = config_of(model, key) or {}
    for where, name in rankings.items():
        if MEASURES[name].decoders and not continues(config):
            raise ModelError(
                f"{where}: got '{name}', expected none, because {key}.source '{model.source}' is of type "
                f"{config['model_type']}, no decoder"
            )


def _check_tokenizer(path: Path, model: Model, key: str) -> None:
    """Raise ModelError if a tokenizer that could read files besides `model_files.files` cannot be loaded."""
    names_a_path = any(os.path.isabs(text) for _, _, text in checks.tokenizer_texts(path))
    if names_a_path or not has_vocabulary(path) or os.environ.get(plugins.REGISTERING):
        from headspec.models.tokenization import tokenizer  # slow to import

        tokenizer(model, key)


def check_languages(study: Study) -> None:
    """Raise ModelError if local tokenizers lack languages of texts that models write."""
    written = {name: task for name, task in study.learnt.items() if kind(task).writes}
    problems = []
    for (key, model), (name, task) in itertools.product(study.models.items(), written.items()):
        if present(model, f"models.{key}"):
            from headspec.models.tokenization import tokenizer  # slow to import

            try:
                begun = tokenizer(model, f"models.{key}")
                load_part(task.type, "ENCODING").begin(begun, vars(task), f"tasks.{name}")
            except ModelError as error:
                problems.append(error)
    if problems:
        raise ModelError.combined(problems)


def check_models(study: Study) -> None:
    """Raise one ModelError for all unusable models; jobs check the hub models that they download."""
    problems = []
    rankings = {f"atlas.rankings.{i}": name for i, name in enumerate(study.atlas.rankings)}
    ways = {f"gates.pruning_methods.{i}": name for i, name in enumerate(study.gates.pruning_methods)}
    rankings |= {key: name for key, name in ways.items() if name in MEASURES}
    for name, model in study.models.items():
        key = f"models.{name}"
        try:
            if path := present(model, key):
                check_model(path, model, key)
                _check_tokenizer(path, model, key)
            elif is_described(model):
                checks.check_sizes(model, key)
            if model.quantization:
                quantized.check(model.quantization, config_of(model, key), key, model.source)
            if path or is_described(model):
                check_tasks(model, key, study.learnt)
                check_attention(model, key, study.gates.attention)
                check_rankings(model, key, rankings)
        except HeadspecError as error:
            problems.append(error)
    if problems:
        raise ModelError.combined(problems)
