"""The sections `iat` and `transfer`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config import variants
from headspec.config.sections.training import Sampling
from headspec.sections import (
    IN_PATHS,
    NUMBER,
    Count,
    Distinct,
    Fraction,
    FractionBelowOne,
    OneOf,
    Positive,
    Section,
)

Control = Annotated[str, OneOf(variants.CONTROLS)]
Alpha = Annotated[Fraction, IN_PATHS]
Delta = Annotated[FractionBelowOne, IN_PATHS]
Rate = Annotated[str, OneOf(variants.RATES)]


class IAT(Section):
    """Important attention-head training (IAT): at the end, each task trains only its own heads."""

    mixtures: Distinct[str] = Field([], description="mixtures to train with IAT: groups, or `a+b` for pairs")
    alpha: Alpha = Field(0.3, description="fraction of all heads that a task owns, its most important ones")
    delta: Delta = Field(
        0.1, description="last fraction of training, in which a task updates only these heads"
    )
    projections: Literal["qkv", "qkvo"] = Field(
        "qkv",
        description="weights of a head: its rows of W_Q, W_K and W_V; with `qkvo` also its columns of W_O",
    )
    controls: Distinct[Control] = Field(
        ["random"], description="[variants](methods/iat.md#what-is-compared) to compare with"
    )
    sweep_controls: bool = Field(False, description="combine controls with every alpha and delta, too")
    rate: Rate = Field(
        "continued",
        description="learning rates after the branch: as in plain training, or rewarmed to `iat.peak` and "
        "decayed by `training.decay`, compared with plain training at these rates (method `rewarmed`)",
    )
    peak: Positive | None = Field(
        None, description="peak learning rate of `rewarmed`; by default that of plain training"
    )
    rescorings: Count = Field(3, description="how often `rescored` rescores heads after the branch")
    alphas: Distinct[Alpha] = Field([], description="further values of alpha, each with every delta")
    deltas: Distinct[Delta] = Field([], description="further values of delta, each with every alpha")
    samplings: Distinct[Sampling] = Field(
        [], description="further values of `training.sampling`, each with and without IAT"
    )
    reserve: Delta = Field(
        0.2,
        description="largest delta possible without retraining: the state before this last fraction is kept",
    )


Encoder = Annotated[str, OneOf(variants.encoders)]


class Transfer(Section):
    """Few-shot transfer: how well encoders learn an unseen task from a few examples.

    `full` trains by the section `training`, but on one task, and so without `training.sampling`.
    """

    tasks: Distinct[str] = Field(
        [],
        description="tasks to transfer to, whose texts no task of `iat.mixtures` has",
    )
    samples: Annotated[Distinct[Count], Field(min_length=1)] = Field(
        [4, 16, 32, 100],
        description="numbers of training examples, nested within a draw; every set has all classes",
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="random draws of training examples, the same for all encoders"
    )
    methods: Annotated[Distinct[Encoder], Field(min_length=1)] = Field(
        ["pretrained", "single", "tuned", "iat"],
        description="encoders: `pretrained`; `single`, trained on one task of `iat.mixtures`; others, on a "
        "whole mixture, of those that `iat` trains",
    )
    tuning: Annotated[Distinct[Literal["full", "linear"]], Field(min_length=1)] = Field(
        ["full", "linear"],
        description="what is trained: `full`, encoder and a new classifier; `linear`, a logistic or ridge "
        "regression on fixed vectors",
    )
    steps: Count = Field(
        100, description="training steps of `full`, for any number of examples, instead of `training.epochs`"
    )
    batch_size: Count = Field(
        16, description="maximum examples per step of `full`, instead of `training.batch_size`"
    )
    learning_rate: Positive | None = Field(
        None,
        description="peak learning rate of `full`; by default `training.learning_rate`",
    )
    penalty: Positive = Field(
        1.0,
        description="L2 penalty of `linear`, relative to the sum of losses, for vectors of mean variance 1",
    )
