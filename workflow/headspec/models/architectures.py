"""What cannot be found out from a model of transformers itself.

Heads are found where a model calls its attention function (`headspec.models.interface`). The types below
compute attention themselves; theirs are found by the name of W_O, the linear layer that takes the context
vectors of all heads.
"""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from headspec.attention import CROSS, DECODER, ENCODER, SELF

#: what models of a type do with a text: represent it, continue it, or write another one
READS, CONTINUES, WRITES = "encoder", "decoder", "encoder-decoder"


class Names(NamedTuple):
    """Names of modules inside `AutoModel`, with ``*`` for the number of a layer.

    Attributes
    ----------
    attention : the module with the projections of queries, keys and values, which returns attention weights
    output : W_O
    """

    attention: str
    output: str


_BERT = {SELF: Names("encoder.layer.*.attention.self", "encoder.layer.*.attention.output.dense")}
_GPT = {SELF: Names("h.*.attn", "h.*.attn.c_proj")}
_GPTJ = {SELF: Names("h.*.attn", "h.*.attn.out_proj")}
_BLOOM = {SELF: Names("h.*.self_attention", "h.*.self_attention.dense")}
_XLM = {SELF: Names("attentions.*", "attentions.*.out_lin")}

#: model type: its kinds of attention, in the order of rows
OWN_ATTENTION: dict[str, dict[str, Names]] = {
    "big_bird": _BERT,
    "bloom": _BLOOM,
    "deberta": _BERT,
    "deberta-v2": _BERT,
    "falcon": _BLOOM,
    "flaubert": _XLM,
    "gpt_neo": {SELF: Names("h.*.attn.attention", "h.*.attn.attention.out_proj")},
    "gpt_neox_japanese": {SELF: Names("layers.*.attention", "layers.*.attention.dense")},
    "gptj": _GPTJ,
    "led": {
        ENCODER: Names(
            "encoder.layers.*.self_attn.longformer_self_attn", "encoder.layers.*.self_attn.output"
        ),
        DECODER: Names("decoder.layers.*.self_attn", "decoder.layers.*.self_attn.out_proj"),
        CROSS: Names("decoder.layers.*.encoder_attn", "decoder.layers.*.encoder_attn.out_proj"),
    },
    "luke": _BERT,
    "megatron-bert": _BERT,
    "mpnet": {SELF: Names("encoder.layer.*.attention.attn", "encoder.layer.*.attention.attn.o")},
    "mpt": {SELF: Names("blocks.*.attn", "blocks.*.attn.out_proj")},
    "openai-gpt": _GPT,
    "rembert": _BERT,
    "roformer": _BERT,
    "xglm": {SELF: Names("layers.*.self_attn", "layers.*.self_attn.out_proj")},
    "xlm": _XLM,
}

#: number of position embeddings that no token uses: those of fairseq's models start after padding
RESERVED = dict.fromkeys(
    ("camembert", "data2vec-text", "ibert", "mpnet", "roberta", "roberta-prelayernorm", "xlm-roberta",
     "xlm-roberta-xl", "xmod", "longformer", "luke", "esm"), 2,
)  # fmt: skip
#: types whose code takes neither masks of which tokens see which nor keys and values of earlier tokens
FORGETFUL = {"openai-gpt"}


@functools.cache
def types() -> dict[str, str]:
    """Type of transformers: its family, `READS`, `CONTINUES` or `WRITES`; without loading transformers."""
    with open(Path(__file__).with_name("types.tsv"), encoding="utf-8", newline="") as file:
        return {row["type"]: row["family"] for row in csv.DictReader(file, delimiter="\t")}


def family(config: Mapping[str, Any]) -> str:
    """The family of a model with this config.json; where its type is new, by what the file says."""
    if known := types().get(str(config.get("model_type"))):
        return known
    if config.get("is_encoder_decoder"):
        return WRITES
    names = config.get("architectures") or []
    return CONTINUES if any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in names) else READS


def writes(config: Mapping[str, Any]) -> bool:
    """Whether a model with this config.json is an encoder-decoder."""
    return family(config) == WRITES


def continues(config: Mapping[str, Any]) -> bool:
    """Whether a model with this config.json continues texts, rather than fills masks."""
    return family(config) == CONTINUES


def remembers(config: Mapping[str, Any]) -> bool:
    """Whether tokens of a model see earlier ones alone, and can go on from the keys and values of these."""
    return continues(config) and config.get("model_type") not in FORGETFUL and config.get("is_causal", True)
