"""The section `models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Checksum, Count, Name, Section

Pooling = Literal["auto", "first", "mean", "last"]


class Model(Section):
    """A pretrained encoder."""

    source: str = Field(
        description="`package:<import name>/<folder>`, `hub:<owner>/<name>@<revision>`, a GGUF file, or a "
        "local folder with config, tokenizer and safetensors weights"
    )
    sha256: Checksum | None = Field(
        None, description="SHA-256 of the weights file, or its first digits, to check"
    )
    weights: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="`random`, a control: each seed draws the weights that pretraining begins with",
    )
    pooling: Pooling = Field(
        "auto",
        description="vector of a text: the first token, the mean over tokens, or the last token; `auto`: the "
        "[convention of the type](architectures.md#types-in-the-table)",
    )
    max_length: Annotated[int, Field(ge=8), NUMBER] = Field(
        128, description="most tokens per example; longer ones are truncated and counted"
    )
    dtype: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="of its weights for the method `prompted`: `bf16` keeps those of linear layers in half "
        "the memory, and multiplies in bf16 whatever `precision` is",
    )
    gpus: Count = Field(
        1,
        description="GPUs that [one training shares](running.md#several-gpus-for-one-training)",
    )
    heads: dict[Name, str] = Field(
        {},
        description="[lists of heads](atlas.md#heads-from-elsewhere) to judge: name: a table with the "
        "columns `layer` and `head`, from 0",
    )
