"""The section `transfer`."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import NUMBER, Count, Distinct, OneOf, Positive, Section

Encoder = Annotated[str, OneOf("headspec.config.variants:encoders")]


class Transfer(Section):
    """Few-shot transfer: how well encoders learn an unseen task from a few examples."""

    tasks: Distinct[str] = Field(
        [],
        description="tasks to transfer to; no mixture of `iat.mixtures` may have one of them or a task with "
        "the same texts",
    )
    samples: Annotated[Distinct[Count], Field(min_length=1)] = Field(
        [4, 16, 32, 100],
        description="numbers of training examples; within a draw, smaller sets are subsets of larger ones, "
        "and every set has all classes",
    )
    draws: Annotated[int, Field(ge=2), NUMBER] = Field(
        5, description="random draws of training examples, the same for every encoder and seed"
    )
    methods: Annotated[Distinct[Encoder], Field(min_length=1)] = Field(
        ["pretrained", "single", "tuned", "iat"],
        description="encoders: `pretrained`, as it is; `single`, trained on one task of `iat.mixtures`; "
        "`tuned` and `iat`, on a whole mixture; a control of `iat.controls`; or `rewarmed`, if `iat.rate` is",
    )
    tuning: Annotated[Distinct[Literal["full", "linear"]], Field(min_length=1)] = Field(
        ["full", "linear"],
        description="what is trained: `full`, encoder and a new classifier; `linear`, a logistic or ridge "
        "regression on fixed vectors",
    )
    steps: Count = Field(100, description="training steps of `full`, for any number of examples")
    batch_size: Count = Field(16, description="most examples per step of `full`")
    learning_rate: Positive | None = Field(
        None,
        description="peak learning rate of `full`; by default `training.learning_rate`",
    )
    penalty: Positive = Field(
        1.0,
        description="penalty of `linear` on squared weights, relative to the sum of losses, for vectors "
        "scaled to a mean variance of 1",
    )
