"""Settings in a model's config.json or GGUF file, and those of models that a study's config describes."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from headspec.errors import ModelError, shown
from headspec.head_arrays import CROSS, DECODER, ENCODER, SELF
from headspec.models.architectures import RESERVED, writes
from headspec.models.pretrained.folders import present
from headspec.models.pretrained.model_files import read_json

if TYPE_CHECKING:
    from headspec.config.sections.model import Model


#: sizes in configs, under the names of different architectures
SIZES = (
    "vocab_size", "max_position_embeddings", "n_positions", "num_hidden_layers", "n_layer", "n_layers",
    "num_attention_heads", "n_head", "n_heads", "encoder_layers", "decoder_layers", "num_layers",
    "num_decoder_layers", "encoder_attention_heads", "decoder_attention_heads", "num_heads",
)  # fmt: skip
#: names for the numbers of layers and heads of each stack; T5's decoder may omit its layers
STACKS = {
    SELF: (("num_hidden_layers", "n_layer", "n_layers"), ("num_attention_heads", "n_head", "n_heads")),
    ENCODER: (("encoder_layers", "num_layers"), ("encoder_attention_heads", "num_heads")),
    DECODER: (
        ("decoder_layers", "num_decoder_layers", "num_layers"),
        ("decoder_attention_heads", "num_heads"),
    ),
}
#: names for numbers of layers and heads; above `MOST`, a job would fill the memory before it fails
COUNTED = {name for kinds in STACKS.values() for names in kinds for name in names}
MOST = 10_000
#: names of sizes in GGUF files, after that of the architecture: their names in config.json
GGUF_SIZES = {
    "block_count": "num_hidden_layers", "attention.head_count": "num_attention_heads",
    "attention.head_count_kv": "num_key_value_heads", "attention.key_length": "head_dim",
    "embedding_length": "hidden_size", "feed_forward_length": "intermediate_size",
    "context_length": "max_position_embeddings", "vocab_size": "vocab_size",
}  # fmt: skip
#: types of numbers in GGUF files, as format characters of `struct`; other types are texts and lists
GGUF_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
GGUF_TEXT, GGUF_LIST = 8, 9
#: settings for the layer types of hybrid models, or for the indices of layers with attention
LAYER_TYPES = ("layer_types", "layers_block_type", "hybrid_override_pattern")
ATTENDING = ("full_attn_idxs", "attn_layer_indices")
#: types of layers without attention heads; single letters are Nemotron-H's
HEADLESS = {"linear_attention", "conv", "mamba", "recurrent", "moe", "mlp", "M", "E", "-"}


def settings(path: Path, key: str, source: str) -> dict[str, Any]:
    """Return the content of config.json, or `model_type` and sizes of a GGUF file; else ModelError."""
    if path.is_file() and path.suffix != ".gguf":
        raise ModelError(f"{key}.source: '{source}' is a file; expected the model's folder, or a GGUF file")
    try:
        return _checked(_gguf(path) if path.is_file() else read_json(path / "config.json"))
    except (OSError, ValueError, struct.error) as error:
        problem = "is not a GGUF file" if path.is_file() else "has no readable config.json"
        reason = getattr(error, "strerror", None) or error
        raise ModelError(f"{key}.source: '{source}' {problem} ({reason})") from None


def _checked(config: Any) -> dict[str, Any]:
    """Return a config.json; ValueError if it is not a mapping, or its type or a size is invalid."""
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), (str, NoneType)):
        raise ValueError("it names no model type")
    for name in SIZES:
        value = config.get(name)
        if value is not None and not (isinstance(value, int) and value > 0):
            raise ValueError(f"{name} is {shown(value)}, expected a whole number above 0")
        if value and name in COUNTED and value > MOST:
            raise ValueError(f"{name} is {value}, expected at most {MOST}")
    return config


def _gguf(path: Path) -> dict[str, Any]:
    """Read architecture and sizes at the start of a GGUF file; parsing all of it would take seconds."""
    with open(path, "rb") as file:

        def number(code: str) -> Any:
            return struct.unpack(f"<{code}", file.read(struct.calcsize(f"<{code}")))[0]

        def text() -> str:
            return file.read(min(number("Q"), 1 << 20)).decode(errors="replace")

        def value(kind: int) -> Any:
            if kind == GGUF_TEXT:
                return text()
            if kind == GGUF_LIST:
                entries, length = number("I"), number("Q")
                return [value(entries) for _ in range(length)]
            if kind not in GGUF_NUMBERS:
                raise ValueError(f"unknown GGUF value type {kind}")
            return number(GGUF_NUMBERS[kind])

        magic, _, _, count = struct.unpack("<4sIQQ", file.read(24))
        config: dict[str, Any] = {}
        for _ in range(count if magic == b"GGUF" else 0):
            name = text()
            if name.startswith("tokenizer."):  # long lists; sizes come before
                break
            config[name] = value(number("I"))
            if "general.architecture" not in config:
                break
    kind = config.get("general.architecture")
    if not isinstance(kind, str):
        raise ValueError("it does not start with its architecture")
    sizes = {name: config.get(f"{kind}.{key}") for key, name in GGUF_SIZES.items()}
    return {"model_type": kind} | {name: size for name, size in sizes.items() if isinstance(size, int)}


def positions(config: Mapping[str, Any]) -> int | None:
    """Return the maximum number of tokens for a model with this config.json; None without a limit."""
    stored: int | None = config.get("max_position_embeddings", config.get("n_positions"))
    if not stored or not config.get("position_biased_input", True):
        return None  # DeBERTa's positions are relative
    if (kind := config["model_type"]) not in RESERVED:
        return stored
    return stored - 1 - max(RESERVED[kind], int(config.get("pad_token_id") or 0))


def heads_by_layer(config: Mapping[str, Any]) -> dict[str, list[int]] | None:
    """Return the number of heads in each layer, by kind of attention; None if the config does not say."""

    def setting(names: tuple[str, ...], default: Any = None) -> Any:
        return next((config[name] for name in names if config.get(name)), default)

    if writes(config):
        (n, heads), (m, others) = ([setting(names) for names in STACKS[kind]] for kind in (ENCODER, DECODER))
        if not (n and heads and m and others):
            return None
        return {ENCODER: [heads] * n, DECODER: [others] * m, CROSS: [others] * m}
    layers, heads = (setting(names) for names in STACKS[SELF])
    types = setting(LAYER_TYPES, [""] * (layers or 0))
    if not (heads and types):
        return None
    among = setting(ATTENDING, range(len(types)))
    return {SELF: [heads * (i in among and kind not in HEADLESS) for i, kind in enumerate(types)]}


#: type of described models in transformers
MODEL_TYPE = "m2m_100"
#: special tokens by id; the second starts and ends every text that the model writes
SPECIAL = PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
#: number of sinusoidal positions, and thus the maximum length of a text in tokens
POSITIONS = 1024


def is_described(model: Model) -> bool:
    """Return whether a model is described instead of given by a source; some jobs' params lack the key."""
    return getattr(model, "transformer", None) is not None


def described_config(model: Model) -> dict[str, Any]:
    """Return the config.json of a described model: M2M100, with the widths of Vaswani et al. (2017).

    It normalises the input of sublayers (pre-norm), so that training is stable from the start (Xiong et al.
    2020). Weights have the standard deviation of Xavier initialisation for square matrices.
    """
    sizes = model.transformer
    assert sizes is not None
    layers, heads, hidden = sizes.layers, sizes.heads, sizes.hidden
    inner = sizes.inner or 4 * hidden
    return {
        "model_type": MODEL_TYPE,
        "vocab_size": sizes.vocabulary,
        "d_model": hidden,
        "encoder_layers": layers,
        "decoder_layers": layers,
        "encoder_attention_heads": heads,
        "decoder_attention_heads": heads,
        "encoder_ffn_dim": inner,
        "decoder_ffn_dim": inner,
        "dropout": sizes.dropout,
        "attention_dropout": 0.0,
        "activation_dropout": 0.0,
        "encoder_layerdrop": 0.0,
        "decoder_layerdrop": 0.0,
        "activation_function": "relu",
        "init_std": hidden**-0.5,
        "scale_embedding": True,
        "max_position_embeddings": POSITIONS,
        "pad_token_id": SPECIAL.index(PAD),
        "decoder_start_token_id": SPECIAL.index(END),
        "bos_token_id": None,
        "eos_token_id": SPECIAL.index(END),
        "forced_eos_token_id": None,
    }


def config_of(model: Model, key: str) -> dict[str, Any] | None:
    """Return the config.json of any model, or None for a hub model that is not in the cache."""
    if is_described(model):
        return described_config(model)
    path = present(model, key)
    return settings(path, key, model.source) if path else None
