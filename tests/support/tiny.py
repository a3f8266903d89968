"""Tiny random encoders of every architecture in the table, and examples for them."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSeq2SeqLM, PreTrainedConfig, PreTrainedModel

from headspec.models.architectures import continues
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.tasks.parts import Classes
from support.tiers import cases

VOCABULARY = 97
CPU = Device("cpu", None)
LAYERS, HEADS = 3, 4

_SIZE = {
    "vocab_size": VOCABULARY, "hidden_size": 32, "num_hidden_layers": LAYERS, "num_attention_heads": HEADS,
    "intermediate_size": 48, "max_position_embeddings": 64, "pad_token_id": 0,
}  # fmt: skip
_OWN: dict[str, dict] = {
    "albert": {"embedding_size": 16},
    "electra": {"embedding_size": 32},
    "deberta": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32},
    "deberta-v2": {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "pooler_hidden_size": 32},
    "distilbert": {"dim": 32, "n_layers": LAYERS, "n_heads": HEADS, "hidden_dim": 48},
    "gpt2": {"n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64,
             "bos_token_id": 1, "eos_token_id": 1},
    "openai-gpt": {"n_embd": 32, "n_layer": LAYERS, "n_head": HEADS, "n_positions": 64},
    "modernbert": {"bos_token_id": 1, "eos_token_id": 2, "cls_token_id": 1, "sep_token_id": 2,
                   "global_attn_every_n_layers": 2, "local_attention": 8},
    "llama": {"num_key_value_heads": 2},
    "qwen2": {"num_key_value_heads": 2},
    "qwen3": {"num_key_value_heads": 2, "head_dim": 16},
    "mistral": {"num_key_value_heads": 2},
    "lfm2": {"num_hidden_layers": 5, "num_key_value_heads": 2, "bos_token_id": 1, "eos_token_id": 2,
             "layer_types": ["conv", "full_attention", "conv", "full_attention", "conv"]},
}  # fmt: skip
NATIVE_SIZES = ("distilbert", "gpt2", "openai-gpt")
#: layers of an encoder-decoder by kind of attention; its stacks differ, so that no kind is taken for another
KINDS = {"encoder": LAYERS, "decoder": 2, "cross": 2}
_BART = {
    "d_model": 32, "encoder_layers": LAYERS, "decoder_layers": KINDS["decoder"],
    "encoder_attention_heads": HEADS, "decoder_attention_heads": HEADS, "encoder_ffn_dim": 48,
    "decoder_ffn_dim": 48, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2,
    "forced_eos_token_id": None, "decoder_start_token_id": 2,
}  # fmt: skip
_T5 = {
    "d_model": 32, "d_kv": 6, "d_ff": 48, "num_layers": LAYERS, "num_decoder_layers": KINDS["decoder"],
    "num_heads": HEADS, "eos_token_id": 2, "decoder_start_token_id": 0,
}  # fmt: skip
_STACKS = dict.fromkeys(("marian", "bart", "mbart", "m2m_100"), _BART) | dict.fromkeys(("t5", "mt5"), _T5)
#: encoders and decoders, and encoder-decoders, that tests of every type go through
TYPES = (
    "bert", "roberta", "xlm-roberta", "camembert", "electra", "deberta", "deberta-v2", "albert", "distilbert",
    "mpnet", "modernbert", "gpt2", "openai-gpt", "llama", "qwen2", "qwen3", "mistral",
)  # fmt: skip
ENCODER_DECODERS = tuple(_STACKS)
#: types whose attention and layers are the code of another one here; `test_every_type` has all types
LIKE_OTHERS = {
    "roberta", "xlm-roberta", "camembert", "electra", "deberta", "qwen2", "mistral", "bart", "mbart",
    "m2m_100", "m2m100", "mt5", "tinybert",
}  # fmt: skip


#: those that differ most in how they compute attention; tests of the others are thorough, but for what
#: `test_every_type` tries of each
QUICK = {"bert", "albert", "deberta-v2", "deberta-v3", "modernbert", "gpt2", "llama", "t5"}


def families(types: Iterable[str] = TYPES) -> list[str]:
    """One of `types` from each family."""
    return [name for name in types if name not in LIKE_OTHERS]


def by_family(types: Iterable[str] = TYPES) -> list[Any]:
    """Parameters of a test: `families`, in two tiers."""
    return cases(families(types), QUICK.__contains__)


def pooling(kind: str) -> str:
    """The pooling that tests use for a type."""
    if continues({"model_type": kind}):
        return "last"
    return "mean" if kind in ("mpnet", "modernbert") else "first"


def config(kind: str, **settings) -> PreTrainedConfig:
    if kind in ENCODER_DECODERS:
        sizes = {"vocab_size": VOCABULARY, "pad_token_id": 0} | _STACKS[kind]
    else:
        sizes = ({"vocab_size": VOCABULARY} if kind in NATIVE_SIZES else _SIZE) | _OWN.get(kind, {})
    return AutoConfig.for_model(kind, **(sizes | settings))


def encoder(kind: str, seed: int = 0, **settings) -> PreTrainedModel:
    """A random encoder with larger weights than usual, so that heads matter."""
    torch.manual_seed(seed)
    auto = AutoModelForSeq2SeqLM if kind in ENCODER_DECODERS else AutoModel
    model = auto.from_config(config(kind, **settings))
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 2:
                parameter.mul_(4)
    return model.eval()


def multitask(kind: str, classes: Mapping[str, Classes], **settings) -> MultiTask:
    """A random encoder with heads for tasks, which evaluates."""
    return MultiTask(encoder(kind, **settings), pooling(kind), classes).eval()


def examples(n: int = 12, classes: int = 2, seed: int = 0, shortest: int = 3, longest: int = 14) -> Examples:
    """Random token sequences of random lengths, labels 0 ... classes - 1 in turn."""
    rng = np.random.default_rng(seed)
    ids = [rng.integers(5, VOCABULARY, rng.integers(shortest, longest + 1)).tolist() for _ in range(n)]
    label = (np.arange(n) % classes).astype(float)
    columns = {"example": np.arange(n), "label": label, "input_ids": ids, "token_type_ids": [None] * n}
    return Examples(pd.DataFrame(columns))


#: the task of `tagged`
TAGS: Classes = {"type": "tags", "labels": ["X", "Y"]}


def tagged(n: int = 12) -> Examples:
    """Random texts of five words of one token each, tagged by turns."""
    rng = np.random.default_rng(5)
    frame = pd.DataFrame({"example": range(n), "label": 1.0, "token_type_ids": None, "target": "[]"})
    frame["input_ids"] = [rng.integers(5, VOCABULARY, 5).tolist() for _ in range(n)]
    frame["words"] = [list(range(5))] * n
    frame["units"] = [[[word, (word + row) % 2] for word in range(5)] for row in range(n)]
    return Examples.for_task(frame, TAGS)
