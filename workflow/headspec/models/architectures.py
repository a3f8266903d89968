"""The model types whose heads can be gated, as a table; docs/architectures.md explains how to add one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from headspec.attention import CROSS, DECODER, ENCODER, SELF

if TYPE_CHECKING:
    from transformers import PreTrainedConfig

    from headspec.config.sections.model import Pooling


@dataclass(frozen=True)
class Architecture:
    """The attention projections of a model type, and its sentence vector.

    Attributes
    ----------
    projection : names of the attention output projections W_O inside `AutoModel`, with ``*`` for numbers
        Their input, (batch, tokens, heads * head size), is the one place where heads are separate in
        every implementation of attention.
    pooling : the meaning of `pooling: auto`
        ``first`` includes the pooler if the weights have one. Decoders need ``last``, because only the
        last token attends to the whole text.
    inputs : names of the linear layers or parameters that compute queries, keys and values
        A ``*`` stands for the same number as in `projection`. Names that a model lacks are skipped:
        DeBERTa's position projections depend on its config.
    interleaved : order of the output of a layer that computes queries, keys and values
        If true, head by head (DeBERTa); else all queries, then all keys, then all values.
    reserved : number of position embeddings that no token uses (RoBERTa's positions start after padding)
    takes_masks : whether its code takes a mask of which tokens attend to which, and keys and values of
        tokens before them
    relative : whether positions are relative, so that texts may have any length, whatever the config says
    weights : place of the attention weights in what the attention returns
    """

    projection: str
    pooling: Pooling
    inputs: tuple[str, ...]
    interleaved: bool = False
    reserved: int = 0
    takes_masks: bool = True
    relative: bool = False
    weights: int = 1

    @property
    def causal(self) -> bool:
        """Whether the model continues texts, rather than fills masks."""
        return self.pooling == "last"


def _each(attention: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{attention}.{name}" for name in names)


BERT = Architecture(
    "encoder.layer.*.attention.output.dense",
    "first",
    _each("encoder.layer.*.attention.self", "query", "key", "value"),
)
ROBERTA = replace(BERT, reserved=2)
POSITIONS = "pos_proj", "pos_q_proj", "pos_key_proj", "pos_query_proj"  # of DeBERTa
GPT = Architecture("h.*.attn.c_proj", "last", ("h.*.attn.c_attn",))
LLAMA = Architecture(
    "layers.*.self_attn.o_proj", "last", _each("layers.*.self_attn", "q_proj", "k_proj", "v_proj")
)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": BERT,
    "deberta": replace(
        BERT,
        inputs=_each("encoder.layer.*.attention.self", "in_proj", "q_bias", "v_bias", *POSITIONS),
        interleaved=True,
    ),
    "deberta-v2": replace(  # and v3
        BERT,
        inputs=_each("encoder.layer.*.attention.self", "query_proj", "key_proj", "value_proj", *POSITIONS),
    ),
    "albert": Architecture(
        "encoder.albert_layer_groups.*.albert_layers.*.attention.dense",
        "first",
        _each("encoder.albert_layer_groups.*.albert_layers.*.attention", "query", "key", "value"),
    ),
    "distilbert": Architecture(
        "transformer.layer.*.attention.out_lin",
        "first",
        _each("transformer.layer.*.attention", "q_lin", "k_lin", "v_lin"),
    ),
    "mpnet": Architecture(
        "encoder.layer.*.attention.attn.o",
        "mean",
        _each("encoder.layer.*.attention.attn", "q", "k", "v"),
        reserved=2,
    ),
    "modernbert": Architecture("layers.*.attn.Wo", "mean", ("layers.*.attn.Wqkv",)),
    "gpt2": GPT,
    "openai-gpt": replace(GPT, takes_masks=False),
    "llama": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "mistral": LLAMA,
}


def _bart() -> dict[str, Architecture]:
    """The three kinds of attention of BART, and of the models that have its code."""
    places = {
        ENCODER: "model.encoder.layers.*.self_attn",
        DECODER: "model.decoder.layers.*.self_attn",
        CROSS: "model.decoder.layers.*.encoder_attn",
    }
    return {
        kind: Architecture(f"{place}.out_proj", "mean", _each(place, "q_proj", "k_proj", "v_proj"))
        for kind, place in places.items()
    }


def _t5() -> dict[str, Architecture]:
    places = {
        ENCODER: "encoder.block.*.layer.0.SelfAttention",
        DECODER: "decoder.block.*.layer.0.SelfAttention",
        CROSS: "decoder.block.*.layer.1.EncDecAttention",
    }
    return {
        kind: Architecture(f"{place}.o", "mean", _each(place, "q", "k", "v"), relative=True, weights=2)
        for kind, place in places.items()
    }


BART, T5 = _bart(), _t5()
#: encoder-decoders: the entry of each kind of attention, in the order of rows; names inside
#: `AutoModelForSeq2SeqLM`
ENCODER_DECODERS: dict[str, dict[str, Architecture]] = {
    "marian": BART,
    "bart": BART,
    "mbart": BART,
    "m2m_100": BART,
    "t5": T5,
    "mt5": T5,
}
#: all model types
TYPES = (*ARCHITECTURES, *ENCODER_DECODERS)


def attentions(model_type: str) -> dict[str, Architecture]:
    """The kinds of attention of a model type, in the order of rows; KeyError if it is unknown."""
    return ENCODER_DECODERS.get(model_type) or {SELF: ARCHITECTURES[model_type]}


def remembers(config: PreTrainedConfig) -> bool:
    """Whether tokens of a model see earlier ones alone, and can go on from the keys and values of these."""
    architecture = ARCHITECTURES.get(config.model_type)
    causal = architecture is not None and architecture.causal and architecture.takes_masks
    return causal and getattr(config, "is_causal", True)
