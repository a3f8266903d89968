"""Checks that sizes agree: tokens of a tokenizer, sizes in config.json, rows of embeddings."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import EncoderError
from headspec.models.pretrained.config_json import positions
from headspec.models.pretrained.described import content
from headspec.models.pretrained.folders import present, tensors

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: sizes in config.json: how embeddings with as many rows, or a few more, are named in models of many types
EMBEDDINGS = {
    "vocab_size": ("word_embeddings", "embed_tokens", "shared", "wte", "tokens_embed"),
    "max_position_embeddings": ("position_embeddings", "embed_positions", "positions_embed"),
    "n_positions": ("wpe",),
}


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
    rows = _rows(path)
    for name, weights in EMBEDDINGS.items():
        size = config.get(name)
        if size and (found := [rows[weight] for weight in weights if weight in rows]) and min(found) < size:
            raise EncoderError(
                f"{key}.source: config.json of '{model.source}' has {name} {size}, but its weights have "
                f"embeddings for {min(found)}; expected no more than that"
            )
    check_tokens(_tokens(path), config.get("vocab_size"), model, key)


def check_tokens(tokens: int, embeddings: int | None, model: Model, key: str) -> None:
    """Raise EncoderError if a tokenizer has more `tokens` than a model has `embeddings`."""
    if embeddings and tokens > embeddings:
        raise EncoderError(
            f"{key}.source: the tokenizer of '{model.source}' has {tokens} tokens, but the model has "
            f"embeddings for {embeddings} (vocab_size in config.json); expected no more tokens than that. "
            "model.resize_token_embeddings of transformers adds some"
        )


def _rows(path: Path) -> dict[str, int]:
    """Return rows of the embeddings in the weights of a folder, by the last part of their names."""
    rows: dict[str, int] = {}
    for name, shape in tensors(path).items():
        last = name.removesuffix(".weight").rpartition(".")[-1]
        if name.endswith(".weight") and len(shape) == 2:
            rows[last] = min(shape[0], rows.get(last, shape[0]))
    return rows


def _tokens(path: Path) -> int:
    """Return the tokens of the tokenizer in a folder, by the largest id; 0 if no file has ids."""

    def read(name: str) -> Any:
        try:
            return json.loads((path / name).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError):
            return {}

    fast = read("tokenizer.json")
    try:
        if fast:
            vocabulary = fast["model"]["vocab"]  # mapping to numbers, or list
            numbers = vocabulary.values() if isinstance(vocabulary, dict) else range(len(vocabulary))
            return 1 + max([*numbers, *(token["id"] for token in fast.get("added_tokens", []))])
        if not (words := read("vocab.json")):  # other line separators are tokens
            words = (path / "vocab.txt").read_text(encoding="utf-8").rstrip("\n").split("\n")
        return len(words) + len(read("added_tokens.json"))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return 0
