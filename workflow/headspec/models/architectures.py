"""What cannot be found out from a model of transformers itself."""

from __future__ import annotations

import csv
import functools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

#: what models of a type do with a text: represent it, continue it, or write another one
READS, CONTINUES, WRITES = "encoder", "decoder", "encoder-decoder"

#: types whose positions start after the number of the token of padding, as fairseq's: at least after this
RESERVED = dict.fromkeys(
    ("camembert", "data2vec-text", "ibert", "layoutlmv3", "mpnet", "roberta", "roberta-prelayernorm",
     "xlm-roberta", "xlm-roberta-xl", "xmod", "longformer", "luke", "esm"), 1,
) | {"markuplm": 0}  # fmt: skip
#: types whose code takes neither masks of which tokens see which nor keys and values of earlier tokens
FORGETFUL = {"openai-gpt"}


@functools.cache
def _table() -> dict[str, dict[str, str]]:
    with open(Path(__file__).with_name("types.tsv"), encoding="utf-8", newline="") as file:
        return {row["type"]: row for row in csv.DictReader(file, delimiter="\t")}


def types() -> dict[str, str]:
    """Type of transformers: its family, `READS`, `CONTINUES` or `WRITES`; without loading transformers."""
    return {name: row["family"] for name, row in _table().items()}


def refused(config: Mapping[str, Any]) -> str:
    """Why no study takes a model with this config.json; empty where one does, or may."""
    return _table().get(str(config.get("model_type")), {}).get("refused", "")


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
