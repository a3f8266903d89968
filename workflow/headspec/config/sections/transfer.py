"""The section `transfer`."""

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Count, Distinct, OneOf, Positive, Section

Encoder = Annotated[str, OneOf("headspec.config.variants:encoders")]


class Transfer(Section):
    """Few-shot transfer: how well encoders learn an unseen task from a few examples.
    `full` trains as `training` says, but one task, and so without `training.sampling`.
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
        16, description="most examples per step of `full`, instead of `training.batch_size`"
    )
    learning_rate: Positive | None = Field(
        None,
        description="peak learning rate of `full`; by default `training.learning_rate`",
    )
    penalty: Positive = Field(
        1.0,
        description="L2 penalty of `linear`, relative to the sum of losses, for vectors of mean variance 1",
    )
