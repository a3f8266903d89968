"""The section `gates`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec import head_arrays
from headspec.config import pruning_methods
from headspec.sections import (
    IN_PATHS,
    NUMBER,
    Count,
    Distinct,
    Fraction,
    OneOf,
    Positive,
    Section,
)

MethodName = Annotated[str, OneOf(pruning_methods.names, plugged=True)]
Made = Annotated[str, OneOf(pruning_methods.PRUNING_METHODS, plugged=True)]
Source = Annotated[str, OneOf(pruning_methods.sources, plugged=True)]
Kind = Annotated[str, OneOf(head_arrays.KINDS)]
Share = Annotated[float, Field(gt=0, lt=1), NUMBER, IN_PATHS]
Penalty = Annotated[Positive, IN_PATHS]


class Gates(Section):
    """Pruning methods to keep a number of heads, which `snakemake gates` compares."""

    methods: Annotated[Distinct[Literal["tuned", "single"]], Field(min_length=1)] = Field(
        ["tuned", "single"],
        description="methods whose runs are pruned",
    )
    mixtures: Distinct[str] = Field([], description="mixtures, or tasks alone, to prune; by default all")
    pruning_methods: Annotated[Distinct[MethodName], Field(min_length=1)] = Field(
        ["importance", "rescored", "l0", "l0-target", "subset", "random", "random-by-layer"],
        description="[pruning methods](methods/gates.md#pruning-methods) to choose the heads to keep",
    )
    scope: Annotated[Distinct[Literal["shared", "per_task"]], Field(min_length=1)] = Field(
        ["shared"],
        description="whether tasks of a mixture keep the same heads, or each its own",
    )
    kept: Annotated[Distinct[Share], Field(min_length=1)] = Field(
        [0.1, 0.2, 0.3, 0.5, 0.7], description="fractions of heads to keep"
    )
    attention: Distinct[Kind] = Field(
        [],
        description="kinds of attention of an encoder-decoder whose heads can close; `kept` are fractions of "
        "these; by default all",
    )
    epochs: Count = Field(2, description="further passes over the training examples")
    learning: Fraction = Field(
        0.5,
        description="initial fraction of these passes in which gates learn or heads close",
    )
    learning_rate: Positive = Field(0.1, description="of the gates, by Adam")
    penalty: Penalty = Field(
        0.02,
        description="coefficient of the penalty of `l0`, `static`, `dynamic` and `causal`, per head; He and "
        "Choi (2021) give this times the number of heads",
    )
    penalties: Distinct[Penalty] = Field(
        [],
        description="further coefficients, for which `l0`, `static`, `dynamic` and `causal` are also run",
    )
    rescorings: Count = Field(5, description="steps in which `rescored` closes heads, rescoring before each")
    source: Source = Field(
        "subset", description="pruning method whose kept heads `fresh` and `pretrained` retrain"
    )
    keep_models: Distinct[Made] = Field(
        [],
        description="pruning methods whose models are saved, for [export](methods/gates.md#export) and "
        "[roles](methods/gates.md#roles)",
    )
