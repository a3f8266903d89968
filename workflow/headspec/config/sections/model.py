"""The section `models`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.quantizations import QUANTIZATIONS
from headspec.sections import (
    NUMBER,
    Checksum,
    Count,
    FractionBelowOne,
    Name,
    OneOf,
    Section,
)

Pooling = Literal["auto", "first", "cls", "mean", "last"]


class Transformer(Section):
    """A Transformer for translation (Vaswani et al. 2017).

    Each seed draws its weights, and its vocabulary is made from the training texts of the study.
    """

    layers: Count = Field(6, description="layers of the encoder, and of the decoder")
    heads: Count = Field(8, description="heads of each kind of attention in a layer")
    hidden: Count = Field(512, description="width of the states")
    inner: Count | None = Field(None, description="width inside a layer; `null`: four times `hidden`")
    dropout: FractionBelowOne = Field(0.1, description="dropout of states")
    vocabulary: Count = Field(
        8000,
        description="pieces of texts (SentencePiece, Kudo 2018), with a token for each `target_language` and "
        "three special ones",
    )


class Model(Section):
    """A pretrained encoder."""

    source: str = Field(
        "",
        description="`package:<import name>/<folder>`, `hub:<owner>/<name>@<revision>`, a GGUF file, or a "
        "local folder with config, tokenizer and safetensors weights",
    )
    transformer: Transformer | None = Field(
        None, description="instead of `source`: a [translator](methods/translation.md) to train"
    )
    sha256: Checksum | None = Field(
        None, description="SHA-256 of the weights file, or its first digits, to verify"
    )
    weights: Literal["pretrained", "random"] = Field(
        "pretrained",
        description="`random`, a control: initial weights, drawn by each seed",
    )
    pooling: Pooling = Field(
        "auto",
        description="[vector of a text](tasks-and-models.md#a-model): `first`: the first token, through the "
        "pretrained pooler if there is one; `cls`: unchanged",
    )
    max_length: Annotated[int, Field(ge=8), NUMBER] = Field(
        128, description="maximum tokens per example; longer ones are truncated and counted"
    )
    dtype: Literal["fp32", "bf16"] = Field(
        "fp32",
        description="for `prompted`: `bf16` halves the memory of linear layers, and multiplies in bf16 "
        "whatever `precision` is",
    )
    quantization: Annotated[str, OneOf(QUANTIZATIONS)] | None = Field(
        None,
        description="for `prompted`: linear layers are [quantised](tasks-and-models.md#large-models) as they "
        "are loaded, by packages of `headspec[quantization]`",
    )
    gpus: Count = Field(
        1,
        description="GPUs that [one training shares](running.md#several-gpus-for-one-training), or that "
        "hold the layers of a prompted causal model",
    )
    heads: dict[Name, str] = Field(
        {},
        description="[lists of heads](methods/atlas.md#heads-from-elsewhere) to evaluate: name: a table with "
        "the columns `layer` and `head`, from 0",
    )
