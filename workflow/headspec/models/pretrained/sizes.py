"""Checks that sizes agree: tokens of a tokenizer, sizes in config.json, rows of embeddings."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import EncoderError, shown
from headspec.models.pretrained.config_json import STACKS, positions
from headspec.models.pretrained.described import content
from headspec.models.pretrained.folders import present, tensors
from headspec.models.pretrained.listed import read_json

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: sizes in config.json: how embeddings with as many rows, or a few more, are named in models of many types
EMBEDDINGS = {
    "vocab_size": ("word_embeddings", "embed_tokens", "shared", "wte", "tokens_embed"),
    "max_position_embeddings": ("position_embeddings", "embed_positions", "positions_embed"),
    "n_positions": ("wpe",),
}
#: the width of a model, and its heads, which divide it unless a key of the config is a width of heads
WIDTHS = ("hidden_size", "d_model", "n_embd", "dim")
WIDTH = re.compile(r".*(hidden|embedding)_size.*|.*emb(ed)?_(proj_)?dim|d_model|d_embed|n_embd|dim")
HEADS = sorted({heads for _, names in STACKS.values() for heads in names})
HEAD_WIDTH = re.compile(r".*head_?(dim|size|width).*|d_kv|d_head|kv_channels")


def check(model: Model, key: str) -> None:
    """Raise EncoderError if sizes of a model disagree, or `max_length` exceeds its positions."""
    config = content(model, key)
    if config is None:
        return
    longest = positions(config)
    if longest is not None and model.max_length > longest:
        named = f"'{model.source}'" if model.source else "a transformer"
        raise EncoderError(
            f"{key}.max_length: got {model.max_length}, but {named} has positions for "
            f"{longest} tokens; expected at most that"
        )
    path = present(model, key)
    if path is None or path.is_file():  # a GGUF file has tokens, sizes and weights
        return
    for problem in (*_undivided(config), *_unlike(config, tensors(path))):
        raise EncoderError(f"{key}.source: config.json of '{model.source}' has {problem}")
    check_tokens(_tokens(path), config.get("vocab_size"), model, key)


def check_tokens(tokens: int, embeddings: int | None, model: Model, key: str) -> None:
    """Raise EncoderError if a tokenizer has more `tokens` than a model has `embeddings`."""
    if embeddings and tokens > embeddings:
        raise EncoderError(
            f"{key}.source: the tokenizer of '{model.source}' has {tokens} tokens, but the model has "
            f"embeddings for {embeddings} (vocab_size in config.json); expected no more tokens than that. "
            "model.resize_token_embeddings of transformers adds some"
        )


def _undivided(config: Mapping[str, Any]) -> Iterator[str]:
    """Yield numbers of heads that do not divide a model's width, unless a key is the width of heads."""
    if any(HEAD_WIDTH.fullmatch(name) for name in config):
        return
    for width, heads in itertools.product(WIDTHS, HEADS):
        a, b = config.get(width), config.get(heads)
        if isinstance(a, int) and isinstance(b, int) and b > 0 and a % b:
            yield f"{width} {a} and {heads} {b}; expected a multiple of {b}"


def _unlike(config: Mapping[str, Any], shapes: Mapping[str, list[int]]) -> Iterator[str]:
    """Yield sizes in a config that tensors do not have."""
    embeddings = _embeddings(shapes)
    for name, weights in EMBEDDINGS.items():
        size, found = config.get(name), [embeddings[weight][0] for weight in weights if weight in embeddings]
        if size and found and min(found) < size:
            counted = f"{name} {size}, but its weights have embeddings for {min(found)}"
            yield f"{counted}; expected no more than that"
    widths = {name: config[name] for name in WIDTHS if name in config}
    numbers = {value for name, value in config.items() if WIDTH.fullmatch(name) and isinstance(value, int)}
    for weight in EMBEDDINGS["vocab_size"]:
        if widths and weight in embeddings and (width := embeddings[weight][1]) not in numbers:
            name, size = next(iter(widths.items()))
            yield f"{name} {shown(size)}, but its weights have embeddings of width {width}; expected that"


def _embeddings(shapes: Mapping[str, list[int]]) -> dict[str, list[int]]:
    """Return the smallest shape of matrices by the last part of their names."""
    found: dict[str, list[int]] = {}
    for name, shape in shapes.items():
        last = name.removesuffix(".weight").rpartition(".")[-1]
        if name.endswith(".weight") and len(shape) == 2:
            found[last] = min(shape, found.get(last, shape))
    return found


def _tokens(path: Path) -> int:
    """Return the tokens of the tokenizer in a folder, by the largest id; 0 if no file has ids."""

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
            return 1 + max([*numbers, *(token["id"] for token in fast.get("added_tokens", []))])
        if not (words := read("vocab.json")):  # other line separators are tokens
            if not (path / "vocab.txt").is_file():
                return 0
            words = (path / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        return len(words) + len(read("added_tokens.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0
