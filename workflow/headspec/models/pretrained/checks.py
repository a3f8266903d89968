"""Checks of a model's files before any job starts; without torch."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import EncoderError, listing, nearest, shown
from headspec.models.architectures import family, known, refused, types
from headspec.models.pretrained import sizes
from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.folders import located, tensors
from headspec.models.pretrained.listed import CONFIG, TOKENIZER, read, weight_files
from headspec.models.pretrained.pooling import pooled

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: settings that make transformers load files with other names
ELSEWHERE = ("transformers_weights", "configuration_files", "fast_tokenizer_files")


def architecture(path: Path, model: Model, key: str) -> str:
    """Return the family of the model at `path`.

    Raises EncoderError if it is no model of transformers, its type is refused, it has neither safetensors nor
    GGUF weights, or transformers would also load something beside them.
    """
    if ((path if path.is_dir() else path.parent) / "adapter_config.json").is_file():
        raise EncoderError(
            f"{key}.source: '{model.source}' has an adapter beside it (adapter_config.json), which would be "
            "loaded with it or replace it; expected none. Merge it with peft (merge_and_unload, then "
            "save_pretrained), or move it to another folder"
        )
    config = settings(path, key, model.source)
    for name, content in {CONFIG: config, TOKENIZER: _tokenizer_config(path)}.items():
        for setting in (each for each in ELSEWHERE if content.get(each)):
            raise EncoderError(
                f"{key}.source: {name} of '{model.source}' has {setting} {shown(content[setting])}; expected "
                "weights in model.safetensors, settings in config.json, a tokenizer in tokenizer.json"
            )
    if config.get("model_type") is None:
        raise EncoderError(f"{key}.source: config.json of '{model.source}' has no model_type")
    if path.is_dir() and not known(config):
        raise EncoderError(
            f"{key}.source: '{model.source}' is of type {config['model_type']}, which is no type of "
            f"transformers; expected one of docs/architectures.md.{nearest(config['model_type'], types())}"
        )
    if reason := refused(config):
        raise EncoderError(
            f"{key}.source: '{model.source}' is of type {config['model_type']}, which no study takes, "
            f"because {reason}; docs/architectures.md lists the types that are taken"
        )
    for name in _kernels(config):
        raise EncoderError(
            f"{key}.source: config.json of '{model.source}' has {name}, a kernel that would be downloaded "
            "and run; expected none"
        )
    if path.is_dir() and not weight_files(path):
        place = located(model, key)
        others = sorted(p.name for p in place.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(others)}" if others else ""
        raise EncoderError(
            f"{key}.source: '{model.source}' has no complete safetensors weights (model.safetensors) in "
            f"{place}{has}. Pickled weights are not loaded; for a GGUF file, write the path of the file"
        )
    try:
        tensors(path)
    except EncoderError as error:
        raise EncoderError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None
    return family(config)


def _tokenizer_config(path: Path) -> dict[str, Any]:
    try:
        return read(path, TOKENIZER, dict)
    except EncoderError:  # it is missing, or told by the tokenizer's own check
        return {}


def _kernels(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield settings at any depth of a config that name an implementation on the hub, as ``owner/name``."""
    nodes: list[tuple[str, Any]] = [("", config)]
    while nodes:
        key, node = nodes.pop()
        if isinstance(node, Mapping):
            nodes += [(key if "implementation" in key else str(name), node[name]) for name in node]
        elif isinstance(node, list):
            nodes += [(key, each) for each in node]
        elif "implementation" in key and "/" in str(node):
            yield f"{key} {shown(node)}"


def verify(path: Path, model: Model, key: str) -> None:
    """Raise EncoderError if the weights at `path` do not have the SHA-256 in the config."""
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


def check_model(path: Path, model: Model, key: str) -> None:
    """Raise EncoderError if the model at `path` is refused, or disagrees with the config."""
    architecture(path, model, key)
    pooled(path, model, key)
    sizes.check(model, key)
    verify(path, model, key)
