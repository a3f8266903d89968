"""The section `models`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Checksum, Count, Name, Section

Pooling = Literal["auto", "first", "mean", "last"]


class Model(Section):
    """A pretrained encoder."""

    source: str = Field(
        description="`package:<import name>/<folder>`, `hub:<owner>/<name>@<revision>`, or the path of a "
        "GGUF file or of a local folder with config, tokenizer and safetensors weights"
    )
    sha256: Checksum | None = Field(
        None, description="SHA-256 of the weights file, or its first digits; checked on loading"
    )
    weights: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="`random`, as a control: each seed draws the weights that pretraining begins with",
    )
    pooling: Pooling = Field(
        "auto",
        description="sentence vector: the first token, the mean over tokens, or the last token; `auto` "
        "follows the convention of the architecture",
    )
    max_length: Annotated[int, Field(ge=8), NUMBER] = Field(
        128, description="maximum number of tokens per example; longer examples are truncated and counted"
    )
    gpus: Count = Field(
        1,
        description="GPUs that a training shares, each of which computes a part of every batch; gradients "
        "are the same up to rounding and to the random masks of dropout in fused attention. Without a GPU it "
        "has no effect",
    )
    heads: dict[Name, str] = Field(
        {},
        description="lists of heads from elsewhere, to be [judged](atlas.md#heads-from-elsewhere): name: a "
        "table with the columns `layer` and `head`, from 0",
    )
