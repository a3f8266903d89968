"""The section `gates`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal

from pydantic import Field

from headspec.attention import KINDS
from headspec.config import ways
from headspec.config.sections.base import NUMBER, Count, Distinct, Fraction, OneOf, Positive, Section

WayName = Annotated[str, OneOf(ways.names)]
Made = Annotated[str, OneOf(lambda: list(ways.WAYS))]
Source = Annotated[str, OneOf(ways.sources)]
if TYPE_CHECKING:
    Kind = str
else:
    Kind = Literal[KINDS]

Share = Annotated[float, Field(gt=0, lt=1), NUMBER]


class Gates(Section):
    """Ways to keep a number of heads, which `snakemake gates` compares."""

    methods: Annotated[Distinct[Literal["tuned", "single"]], Field(min_length=1)] = Field(
        ["tuned", "single"],
        description="methods whose runs are pruned, of those that the study trains",
    )
    mixtures: Distinct[str] = Field(
        [], description="mixtures whose runs are pruned, by default all; a task stands for itself alone"
    )
    ways: Annotated[Distinct[WayName], Field(min_length=1)] = Field(
        ["importance", "rescored", "l0", "l0-target", "subset", "random", "random-by-layer"],
        description="[ways](gates.md#ways) to choose the heads to keep",
    )
    sets: Annotated[Distinct[Literal["shared", "own"]], Field(min_length=1)] = Field(
        ["shared"],
        description="whether the tasks of a mixture keep the same heads, or each its own",
    )
    kept: Annotated[Distinct[Share], Field(min_length=1)] = Field(
        [0.1, 0.2, 0.3, 0.5, 0.7], description="fractions of heads to keep"
    )
    attention: Distinct[Kind] = Field(
        [],
        description="of encoder-decoders, the kinds of attention (`encoder`, `decoder`, `cross`) whose heads "
        "can close, of which `kept` are fractions; by default all",
    )
    epochs: Count = Field(2, description="further passes over the training examples, the same for every way")
    learning: Fraction = Field(
        0.5,
        description="first fraction of their steps, in which gates learn or heads close in steps; then the "
        "kept heads are trained alone",
    )
    learning_rate: Positive = Field(0.1, description="of the gates, by Adam")
    penalty: Positive = Field(
        0.02,
        description="coefficient of the L0 penalty, for each head; that of He and Choi (2021), for the mean "
        "over heads, is this one times the number of heads",
    )
    penalties: Distinct[Positive] = Field(
        [],
        description="further coefficients, for each of which `l0`, `static` and `dynamic` learn again; the "
        "heads that they leave open are one more number of heads",
    )
    rescorings: Count = Field(
        5, description="steps in which `rescored` closes heads, each after scoring again"
    )
    source: Source = Field("subset", description="way whose kept heads `fresh` and `pretrained` train again")
    keep_models: Distinct[Made] = Field(
        [],
        description="ways whose models are saved, for [export](gates.md#export) and the "
        "[roles](gates.md#roles) of their heads",
    )
