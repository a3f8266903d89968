"""Models that a config describes instead of naming: Transformers with fresh weights."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from headspec.models.pretrained.config_json import settings
from headspec.models.pretrained.folders import present

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: its type in transformers
MODEL_TYPE = "m2m_100"
#: special tokens by their ids; the second begins and ends every text that is written
SPECIAL = PAD, END, UNKNOWN = "<pad>", "</s>", "<unk>"
#: number of sinusoids, and so the most tokens of a text
POSITIONS = 1024


def is_described(model: Model) -> bool:
    """Return whether a model is described instead of named; jobs that take no such models lack the key."""
    return getattr(model, "transformer", None) is not None


def config(model: Model) -> dict[str, Any]:
    """Return the config.json of a described model: M2M100, with the widths of Vaswani et al. (2017).

    It normalises the input of sublayers, not their output, so that fresh weights learn from the start (Xiong
    et al. 2020). Weights have the standard deviation of Xavier's initialisation of square matrices.
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


def content(model: Model, key: str) -> dict[str, Any] | None:
    """Return the config.json of any model, or None for a hub model that is not in the cache."""
    if is_described(model):
        return config(model)
    path = present(model, key)
    return settings(path, key, model.source) if path else None
