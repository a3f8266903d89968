"""The section `iat`."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from headspec.config.sections.base import Distinct, Fraction, FractionBelowOne, Section
from headspec.config.sections.training import Sampling


class IAT(Section):
    """Important attention-head training (IAT): at the end, each task trains only its own heads."""

    mixtures: Distinct[str] = Field(
        [],
        description="names of mixtures to train with IAT: `a+b` for tasks of `mixtures.pairs`, or a group; "
        "none by default. For comparison, each of their tasks is also trained alone (method `single`)",
    )
    alpha: Fraction = Field(
        0.3, description="fraction of all heads that a task owns, its most important ones"
    )
    delta: FractionBelowOne = Field(
        0.1, description="last fraction of training, in which a task updates only these heads"
    )
    projections: Literal["qkv", "qkvo"] = Field(
        "qkv",
        description="weights that belong to a head: its rows of W_Q, W_K and W_V; with `qkvo` also its "
        "columns of W_O, which otherwise trains with the shared weights",
    )
    controls: Distinct[Literal["bottom", "random", "random-by-layer", "other", "lora"]] = Field(
        ["random"],
        description="control runs, which give a task other heads: `bottom`, its least important; `random`; "
        "`random-by-layer`, random with the task's number of heads in each layer; `other`, another task's. "
        "`lora` trains adapters of the same size instead of heads",
    )
    alphas: Distinct[Fraction] = Field(
        [], description="further values of alpha, each combined with every delta"
    )
    deltas: Distinct[FractionBelowOne] = Field(
        [], description="further values of delta, each combined with every alpha"
    )
    samplings: Distinct[Sampling] = Field(
        [], description="further values of `training.sampling` to compare, each with and without IAT"
    )
    reserve: FractionBelowOne = Field(
        0.2,
        description="largest delta available without training again; the state before this last fraction of "
        "training is kept",
    )
