"""What a model's config.json says of it, or the start of a GGUF file."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import Any

from headspec.attention import CROSS, DECODER, ENCODER
from headspec.errors import EncoderError, shown
from headspec.models.architectures import ENCODER_DECODERS, attentions

#: sizes in configs, under the names of different architectures
SIZES = (
    "max_position_embeddings", "n_positions", "num_hidden_layers", "n_layer", "n_layers",
    "num_attention_heads", "n_head", "n_heads", "encoder_layers", "decoder_layers", "num_layers",
    "num_decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "num_heads",
)  # fmt: skip
#: of stacks of encoder-decoders, the names of layers and of heads; T5's decoder may leave out its layers
STACKS = {
    ENCODER: (("encoder_layers", "num_layers"), ("encoder_attention_heads", "num_heads")),
    DECODER: (
        ("decoder_layers", "num_decoder_layers", "num_layers"),
        ("decoder_attention_heads", "num_heads"),
    ),
}
#: layers by kind of attention, and heads of a layer
Grid = tuple[dict[str, int], int]


def settings(path: Path, key: str, source: str) -> dict[str, Any]:
    """The content of the model's config.json; for a GGUF file only its `model_type`."""
    if path.is_file() and path.suffix != ".gguf":
        raise EncoderError(f"{key}.source: '{source}' is a file; expected the model's folder, or a GGUF file")
    try:
        if path.is_file():
            return {"model_type": _gguf_type(path)}
        return _checked(json.loads((path / "config.json").read_text()))
    except (OSError, ValueError, RecursionError, struct.error) as error:
        problem = "is not a GGUF file" if path.is_file() else "has no readable config.json"
        found = [] if path.is_file() else [*path.glob("*.gguf"), *path.glob("*/config.json")]
        files = sorted(file.relative_to(path).as_posix().removesuffix("/config.json") for file in found)
        hint = f". Did you mean '{source}/{files[0]}'?" if files else ""
        raise EncoderError(f"{key}.source: '{source}' {problem} ({error}){hint}") from None


def _checked(config: Any) -> dict[str, Any]:
    """A config.json; ValueError where it is no mapping, or a size in it no number."""
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), (str, NoneType)):
        raise ValueError("it names no model type")
    for name in SIZES:
        if not isinstance(config.get(name), (int, NoneType)):
            raise ValueError(f"{name} is {shown(config[name])}, expected a whole number")
    return config


def _gguf_type(path: Path) -> str:
    """`general.architecture` from the start of a GGUF file; parsing the whole file would take seconds."""
    with open(path, "rb") as file:
        magic, _, _, _, size = struct.unpack("<4sIQQQ", file.read(32))
        name = file.read(min(size, 64)).decode(errors="replace")
        kind, length = struct.unpack("<IQ", file.read(12))
        if magic != b"GGUF" or name != "general.architecture" or kind != 8:
            raise ValueError("it does not start with its architecture")
        return file.read(min(length, 64)).decode(errors="replace")


def positions(config: Mapping[str, Any]) -> int | None:
    """The most tokens that a model with this config.json takes; None if any number."""
    stored = config.get("max_position_embeddings", config.get("n_positions"))
    architecture = next(iter(attentions(config["model_type"]).values()))
    if not stored or not config.get("position_biased_input", True) or architecture.relative:
        return None  # DeBERTa's positions are relative, too
    return stored - architecture.reserved


def stacks(config: Mapping[str, Any]) -> Grid | None:
    """Layers and heads of an encoder-decoder; None of other models, or where the config does not say.

    Raises
    ------
    EncoderError
        Its decoder has other numbers of heads than its encoder.
    """
    if config.get("model_type") not in ENCODER_DECODERS:
        return None
    (n, heads), (of_decoder, others) = (
        [next((config[name] for name in names if config.get(name)), None) for names in of_stack]
        for of_stack in STACKS.values()
    )
    if not (n and heads and of_decoder and others):
        return None
    if heads != others:
        raise EncoderError(
            f"its encoder has {heads} heads in a layer, its decoder {others}; expected equal numbers"
        )
    return {ENCODER: n, DECODER: of_decoder, CROSS: of_decoder}, heads
