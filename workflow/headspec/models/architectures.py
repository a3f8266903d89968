"""Families and peculiarities of model types in transformers; imports neither torch nor transformers."""

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from headspec import plugins

#: families: models that encode a text, continue it, or write another one
READS, CONTINUES, WRITES = "encoder", "decoder", "encoder-decoder"

#: types whose positions start after the padding token's id, as in fairseq, and the least id to start after
RESERVED = dict.fromkeys(
    ("camembert", "data2vec-text", "ibert", "layoutlmv3", "mpnet", "roberta", "roberta-prelayernorm",
     "xlm-roberta", "xlm-roberta-xl", "xmod", "longformer", "luke", "esm"), 1,
) | {"markuplm": 0}  # fmt: skip
#: types whose code takes neither token-by-token masks nor cached keys and values
WITHOUT_CACHE = {"openai-gpt"}


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    with open(Path(__file__).with_name("types.tsv"), encoding="utf-8", newline="") as file:
        return {row["type"]: row for row in csv.DictReader(file, delimiter="\t")}


def types() -> dict[str, str]:
    """Return the family of each type in transformers: `READS`, `CONTINUES` or `WRITES`."""
    return {name: row["family"] for name, row in _table().items()}


def known(config: Mapping[str, Any]) -> bool:
    """Return whether transformers, imported only for rare types, can load a model with this config.json."""
    if config["model_type"] in types():
        return True
    plugins.register_types()
    from transformers import CONFIG_MAPPING

    return config["model_type"] in CONFIG_MAPPING


def refused(config: Mapping[str, Any]) -> str:
    """Return why studies do not take a model with this config.json; empty if they do."""
    return _table().get(str(config.get("model_type")), {}).get("refused", "")


def family(config: Mapping[str, Any]) -> str:
    """Return the family of a model with this config.json, by its type or, for new types, other keys."""
    if known := types().get(str(config.get("model_type"))):
        return known
    if config.get("is_encoder_decoder"):
        return WRITES
    names = config.get("architectures") or []
    return CONTINUES if any(str(name).endswith(("ForCausalLM", "LMHeadModel")) for name in names) else READS


def writes(config: Mapping[str, Any]) -> bool:
    """Return whether a model with this config.json is an encoder-decoder."""
    return family(config) == WRITES


def continues(config: Mapping[str, Any]) -> bool:
    """Return whether a model with this config.json is a decoder."""
    return family(config) == CONTINUES


def caches(config: Mapping[str, Any]) -> bool:
    """Return whether a model is causal and can continue from cached keys and values."""
    can = config.get("model_type") not in WITHOUT_CACHE
    return can and continues(config) and config.get("is_causal", True)
