"""Checks of a model's files, and that their sizes agree, before any job starts; imports no torch."""

from __future__ import annotations

import hashlib
import itertools
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import ModelError, listing, nearest, shown
from headspec.models.architectures import family, known, refused, types
from headspec.models.pretrained.config_json import STACKS, config_of, positions, settings
from headspec.models.pretrained.folders import located, present, tensors
from headspec.models.pretrained.model_files import (
    CONFIG,
    SETTINGS,
    TOKENIZER,
    read,
    read_json,
    weight_files,
)
from headspec.models.pretrained.pooling import chosen_pooling

if TYPE_CHECKING:
    from headspec.config.sections.model import Model


#: sizes in config.json: names, in models of many types, of embeddings with at least as many rows
EMBEDDINGS = {
    "vocab_size": ("word_embeddings", "embed_tokens", "shared", "wte", "tokens_embed"),
    "max_position_embeddings": ("position_embeddings", "embed_positions", "positions_embed"),
    "n_positions": ("wpe",),
}
#: names for the width of a model, which its heads must divide unless the config gives the width of heads
WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
WIDTH = re.compile(r".*(hidden|embedding)_(size|rank).*|.*emb(ed)?_(proj_)?dim|d_model|d_embed|n_embd|dim")
HEADS = sorted({heads for _, names in STACKS.values() for heads in names})
HEAD_WIDTH = re.compile(r".*head_?(dim|size|width).*|d_kv|d_head|kv_channels")


def check_sizes(model: Model, key: str) -> None:
    """Raise ModelError if sizes of a model disagree, or `max_length` exceeds its positions.

    Nothing is checked for a hub model that is not in the cache.
    """
    config = config_of(model, key)
    if config is None:
        return
    longest = positions(config)
    if longest is not None and model.max_length > longest:
        named = f"'{model.source}'" if model.source else "a transformer"
        raise ModelError(
            f"{key}.max_length: got {model.max_length}, but {named} has positions for "
            f"{longest} tokens; expected at most {longest}"
        )
    path = present(model, key)
    if path is None or path.is_file():  # a GGUF file has tokens, sizes and weights
        return
    for problem in (*_undivided(config), *_unlike(config, tensors(path))):
        raise ModelError(f"{key}.source: config.json of '{model.source}' has {problem}")
    check_tokens(_tokens(path), config.get("vocab_size"), model, key)


def check_tokens(tokens: int, embeddings: int | None, model: Model, key: str) -> None:
    """Raise ModelError if a tokenizer has more `tokens` than a model has `embeddings`."""
    if embeddings and tokens > embeddings:
        raise ModelError(
            f"{key}.source: the tokenizer of '{model.source}' has {tokens} tokens, but the model has "
            f"embeddings for only {embeddings} (vocab_size in config.json); add embeddings by "
            "model.resize_token_embeddings of transformers"
        )


def _undivided(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield numbers of heads that do not divide the model's width, unless the config gives heads' width."""
    if any(HEAD_WIDTH.fullmatch(name) for name in config):
        return
    for width, heads in itertools.product(WIDTHS, HEADS):
        a, b = config.get(width), config.get(heads)
        if isinstance(a, int) and isinstance(b, int) and b > 0 and a % b:
            yield f"{width} {a} and {heads} {b}; expected a multiple of {b}"


def _unlike(config: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> Iterator[str]:
    """Yield sizes in a config that disagree with the tensors."""
    embeddings = _embeddings(shapes)
    for name, weights in EMBEDDINGS.items():
        size, sizes = config.get(name), [embeddings[weight][0] for weight in weights if weight in embeddings]
        if size and sizes and min(sizes) < size:
            counted = f"{name} {size}, but its weights have embeddings for {min(sizes)}"
            yield f"{counted}; expected at most {min(sizes)}"
    widths = {name: config[name] for name in WIDTHS if name in config}
    numbers = {value for name, value in config.items() if WIDTH.fullmatch(name) and isinstance(value, int)}
    for weight in EMBEDDINGS["vocab_size"]:
        if widths and weight in embeddings and (width := embeddings[weight][1]) not in numbers:
            name, size = next(iter(widths.items()))
            yield f"{name} {shown(size)}, but its weights have embeddings of width {width}"


def _embeddings(shapes: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return the smallest shape of the matrices that share the last part of their names."""
    by_name: dict[str, list[int]] = {}
    for name, shape in shapes.items():
        last = name.removesuffix(".weight").rpartition(".")[-1]
        if name.endswith(".weight") and len(shape) == 2:
            by_name[last] = min(shape, by_name.get(last, shape))
    return by_name


def _tokens(path: Path) -> int:
    """Return the vocabulary size of the tokenizer in a folder; 0 if no readable file tells it."""

    def read(name: str) -> Any:
        try:
            return read_json(path / name)
        except (OSError, ValueError):
            return {}

    fast = read("tokenizer.json")
    try:
        if fast:
            vocabulary = fast["model"]["vocab"]  # mapping to numbers, or list
            numbers = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
            return 1 + int(max([*numbers, *(token["id"] for token in fast.get("added_tokens", []))]))
        if not (words := read("vocab.json")):  # other line separators may be tokens
            if not (path / "vocab.txt").is_file():
                return 0
            words = (path / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        return len(words) + len(read("added_tokens.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0


#: settings by which transformers loads files of other names
ELSEWHERE = ("transformers_weights", "configuration_files", "fast_tokenizer_files")


def architecture(path: Path, model: Model, key: str) -> str:
    """Return the family of the model at `path`.

    Raises ModelError if it is not a model of transformers, its type is refused, it has neither safetensors
    nor GGUF weights, they are damaged, or transformers would load other files or a kernel as well.
    """
    if ((path if path.is_dir() else path.parent) / "adapter_config.json").is_file():
        raise ModelError(
            f"{key}.source: '{model.source}' has an adapter next to it (adapter_config.json), which would be "
            "loaded with it or replace it. Merge it with peft (merge_and_unload, then "
            "save_pretrained), or move it to another folder"
        )
    config = settings(path, key, model.source)
    for name, content in {CONFIG: config, TOKENIZER: _tokenizer_config(path)}.items():
        for setting in (each for each in ELSEWHERE if content.get(each)):
            raise ModelError(
                f"{key}.source: {name} of '{model.source}' has {setting} {shown(content[setting])}; expected "
                "weights in model.safetensors, settings in config.json, a tokenizer in tokenizer.json"
            )
    if config.get("model_type") is None:
        raise ModelError(f"{key}.source: config.json of '{model.source}' has no model_type")
    if path.is_dir() and not known(config):
        raise ModelError(
            f"{key}.source: '{model.source}' is of type {config['model_type']}, which is not a type "
            f"of transformers; expected one of docs/code/architectures.md."
            f"{nearest(config['model_type'], types())}"
        )
    if reason := refused(config):
        raise ModelError(
            f"{key}.source: '{model.source}' is of type {config['model_type']}, which studies do not "
            f"support, because {reason}; docs/code/architectures.md lists the supported types"
        )
    for name in _kernels(config):
        raise ModelError(
            f"{key}.source: config.json of '{model.source}' has {name}, a kernel that would be downloaded "
            "and run; remove it"
        )
    if path.is_dir() and not weight_files(path):
        place = located(model, key)
        others = sorted(p.name for p in place.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(others)}" if others else ""
        raise ModelError(
            f"{key}.source: '{model.source}' has no complete safetensors weights (model.safetensors) in "
            f"{place}{has}. Pickled weights are not loaded; for a GGUF file, write the path of the file"
        )
    try:
        tensors(path)
    except ModelError as error:
        raise ModelError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None
    return family(config)


def _tokenizer_config(path: Path) -> dict[str, Any]:
    try:
        return read(path, TOKENIZER, dict)
    except ModelError:  # missing, or reported by the tokenizer's own check
        return {}


def check_tokenizer_files(path: Path, model: Model, key: str) -> None:
    """Raise ModelError if settings of the tokenizer at `path` name a file that its version does not cover.

    Tokenizer classes may open files named in any argument, so a list of arguments could never be complete.
    """
    folder = path if path.is_dir() else path.parent
    own = {os.path.realpath(file) for file in folder.rglob("*") if not file.is_dir()}
    for name, setting, value in tokenizer_texts(folder):
        for place in (value, os.path.expanduser(value), os.path.join(folder, value)):
            if os.path.exists(place) and not os.path.isdir(place) and os.path.realpath(place) not in own:
                raise ModelError(
                    f"{key}.source: {name} of '{model.source}' has {setting} {shown(value)}, a file that is "
                    "not one of the model's; expected its content in the model's folder"
                )


def tokenizer_texts(folder: Path) -> Iterator[tuple[str, str, str]]:
    """Yield file, setting and value of each string among the settings of the tokenizer in a folder."""
    for name in (each for each in SETTINGS if each.endswith(".json") and (folder / each).exists()):
        try:
            nodes = [*read(folder, name, dict).items()]
        except ModelError:  # reported when the tokenizer is loaded
            continue
        while nodes:
            setting, node = nodes.pop()
            if isinstance(node, (dict, list)):
                nodes += [(setting, each) for each in (node.values() if isinstance(node, dict) else node)]
            elif isinstance(node, str):
                yield name, setting, node


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
    """Raise ModelError unless the weights at `path` are one file with the SHA-256 in the config, if any."""
    if model.sha256 is None:
        return
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise ModelError(
            f"{key}.sha256: the weights of '{model.source}' are in several files, "
            "expected a single file (model.safetensors)"
        )
    with open(file, "rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if not digest.startswith(model.sha256.lower()):
        raise ModelError(
            f"{key}.sha256: the weights of '{model.source}' have SHA-256 {digest}, expected {model.sha256}"
        )


def check_model(path: Path, model: Model, key: str) -> None:
    """Raise ModelError if the model at `path` is refused, or disagrees with the config."""
    architecture(path, model, key)
    check_tokenizer_files(path, model, key)
    chosen_pooling(path, model, key)
    check_sizes(model, key)
    verify(path, model, key)
