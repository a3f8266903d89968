"""Checks of a model's files; without torch, so that a wrong model is refused before any job starts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headspec.errors import EncoderError, HeadspecError, listing, shown
from headspec.models.architectures import family, refused, writes
from headspec.models.pretrained import sizes
from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.described import content, is_described
from headspec.models.pretrained.folders import present, weight_files
from headspec.models.pretrained.pooling import pooled
from headspec.tasks.translation import classes as translation

if TYPE_CHECKING:
    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task
    from headspec.config.study import Study


def architecture(path: Path, model: Model, key: str) -> str:
    """The family of the model at `path`.

    Raises
    ------
    EncoderError
        It is no model of transformers, of a type that no study takes, it has neither safetensors nor GGUF
        weights, or something beside them would be loaded, too.
    """
    beside = path if path.is_dir() else path.parent
    if (beside / "adapter_config.json").is_file():
        raise EncoderError(
            f"{key}.source: '{model.source}' has an adapter beside it (adapter_config.json in {beside}), "
            "which would be loaded with it or replace it; expected none. Merge it with peft "
            "(merge_and_unload, then save_pretrained), or move it to another folder"
        )
    config = settings(path, key, model.source)
    if named := config.get("transformers_weights"):
        raise EncoderError(
            f"{key}.source: config.json of '{model.source}' has transformers_weights {shown(named)}; "
            "expected weights in model.safetensors"
        )
    if config.get("model_type") is None:
        raise EncoderError(f"{key}.source: config.json of '{model.source}' has no model_type")
    if reason := refused(config):
        raise EncoderError(
            f"{key}.source: '{model.source}' is of type {config['model_type']}, which no study takes, "
            f"because {reason}; docs/architectures.md lists the types that are taken"
        )
    if path.is_dir() and not weight_files(path):
        others = sorted(p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(others)}" if others else ""
        raise EncoderError(
            f"{key}.source: '{model.source}' has no complete safetensors weights (model.safetensors) in "
            f"{path}{has}. Pickled weights are not loaded; for a GGUF file, write the path of the file"
        )
    return family(config)


def verify(path: Path, model: Model, key: str) -> None:
    """EncoderError if the weights at `path` do not have the SHA-256 in the config."""
    if model.sha256 is None:
        return
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' are in several files, "
            "expected one (model.safetensors)"
        )
    with open(file, "rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if not digest.startswith(model.sha256.lower()):
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' have SHA-256 {digest}, expected {model.sha256}"
        )


def check_tasks(model: Model, key: str, tasks: Mapping[str, Task]) -> None:
    """EncoderError if a model that is here cannot learn one of `tasks`, or be judged by lists of heads."""
    config = content(model, key) or {}
    kind = config["model_type"]
    where, what = (f"{key}.source", f"'{model.source}'") if model.source else (f"{key}.transformer", "it")
    if model.heads and writes(config):
        raise EncoderError(
            f"{key}.heads: got {listing(model.heads)}, expected none for an encoder-decoder ({kind}), whose "
            "heads have a kind of attention beside layer and head"
        )
    for name, task in tasks.items():
        if task.type == translation.NAME and not writes(config):
            raise EncoderError(
                f"{key}.source: '{model.source}' is of type {kind}, which has no cross-attention and writes "
                f"no texts for tasks.{name}; expected an encoder-decoder, such as Marian or T5"
            )
        if task.type != translation.NAME and writes(config):
            raise EncoderError(
                f"{where}: {what} is of type {kind}, an encoder-decoder, but tasks.{name} is "
                f"a {task.type} task; expected tasks of translation alone, or another model"
            )


def check_attention(model: Model, key: str, kinds: Sequence[str]) -> None:
    """EncoderError if `gates.attention` names `kinds` that a model that is here does not have."""
    config = content(model, key) or {}
    if kinds and not writes(config):
        raise EncoderError(
            f"gates.attention: got {listing(kinds)}, expected none, because {key}.source '{model.source}' is "
            f"of type {config['model_type']}, which has one kind of attention"
        )


def check_model(path: Path, model: Model, key: str) -> None:
    """EncoderError if the model at `path` cannot be gated, or disagrees with the config."""
    architecture(path, model, key)
    pooled(path, model, key)
    sizes.check(model, key)
    verify(path, model, key)


def learnt(study: Study) -> dict[str, Task]:
    """The tasks that every model of a study learns."""
    names = {*study.alone, *study.transfer.tasks, *itertools.chain(*study.mixture_tasks.values())}
    return {name: task for name, task in study.tasks.items() if name in names}


def check(study: Study) -> None:
    """One EncoderError for all models of the study that cannot be loaded or gated.

    A hub model that is not in the cache is checked by the first job that downloads it.
    """
    problems = []
    for name, model in study.models.items():
        key = f"models.{name}"
        try:
            if path := present(model, key):
                check_model(path, model, key)
            elif is_described(model):
                sizes.check(model, key)
            if path or is_described(model):
                check_tasks(model, key, learnt(study))
                check_attention(model, key, study.gates.attention)
        except HeadspecError as error:
            problems.append(error)
    if problems:
        raise EncoderError.of(problems)
