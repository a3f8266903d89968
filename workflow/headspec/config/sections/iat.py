"""The section `iat`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import (
    Count,
    Distinct,
    Fraction,
    FractionBelowOne,
    OneOf,
    Positive,
    Section,
)
from headspec.config.sections.training import Sampling

Control = Annotated[str, OneOf("headspec.config.variants:CONTROLS")]
Rate = Annotated[str, OneOf("headspec.config.variants:RATES")]


class IAT(Section):
    """Important attention-head training (IAT): at the end, each task trains only its own heads."""

    mixtures: Distinct[str] = Field([], description="mixtures to train with IAT: groups, or `a+b` for pairs")
    alpha: Fraction = Field(
        0.3, description="fraction of all heads that a task owns, its most important ones"
    )
    delta: FractionBelowOne = Field(
        0.1, description="last fraction of training, in which a task updates only these heads"
    )
    projections: Literal["qkv", "qkvo"] = Field(
        "qkv",
        description="weights of a head: its rows of W_Q, W_K and W_V; with `qkvo` also its columns of W_O",
    )
    controls: Distinct[Control] = Field(
        ["random"], description="[variants](iat.md#what-is-compared) to compare with"
    )
    sweep_controls: bool = Field(False, description="combine controls with every alpha and delta, too")
    rate: Rate = Field(
        "continued",
        description="learning rates after the branch: as in plain training, or up to `iat.peak` again and "
        "down by `training.decay`, compared with plain training at these rates (method `rewarmed`)",
    )
    peak: Positive | None = Field(
        None, description="peak learning rate of `rewarmed`; by default `training.learning_rate`"
    )
    rescorings: Count = Field(3, description="how often `rescored` scores heads again after the branch")
    alphas: Distinct[Fraction] = Field([], description="further values of alpha, each with every delta")
    deltas: Distinct[FractionBelowOne] = Field(
        [], description="further values of delta, each with every alpha"
    )
    samplings: Distinct[Sampling] = Field(
        [], description="further values of `training.sampling`, each with and without IAT"
    )
    reserve: FractionBelowOne = Field(
        0.2,
        description="largest delta that needs no training again: the state before this last fraction is kept",
    )
