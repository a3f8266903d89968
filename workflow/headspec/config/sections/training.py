"""The section `training`, and the learning rates that it determines."""

import math
from collections.abc import Callable
from typing import Annotated, Literal

from pydantic import Field

from headspec.config.sections.base import Count, FractionBelowOne, NotNegative, OneOf, Positive, Section
from headspec.registry import Registry

Sampling = Literal["proportional", "sqrt", "annealed"]


class FrozenTraining(Section):
    """The method `frozen`."""

    learning_rate: Positive = Field(1e-3, description="peak learning rate")
    epochs: Count = Field(10, description="passes over the training examples")


class LoRATraining(Section):
    """The method `lora` (Hu et al. 2022)."""

    learning_rate: Positive = Field(2e-4, description="peak learning rate")
    rank: Count = Field(16, description="rank of the product added to a weight, at scale 1")
    layers: Literal["all", "attention"] = Field(
        "all", description="linear layers with adapters: of all blocks, or only of attention"
    )


#: `training.decay`: the rate of a step from the peak, the step (from 0) and the number of steps after warmup
DECAYS: Registry[Callable[[float, int, int], float]] = Registry(
    "decay",
    {
        "linear": lambda peak, step, steps: peak * (steps - step) / steps,
        "cosine": lambda peak, step, steps: peak * (1 + math.cos(math.pi * step / steps)) / 2,  # half of one
        "constant": lambda peak, step, steps: peak,
    },
)


class Training(Section):
    """Fine-tuning."""

    epochs: Count = Field(3, description="passes over the training examples")
    batch_size: Count = Field(32, description="examples per step, all of one task")
    learning_rate: Positive = Field(2e-5, description="peak learning rate")
    decoder_learning_rate: Positive | None = Field(
        None,
        description="peak learning rate of the decoders of [words](words.md); `null`: `learning_rate`",
    )
    decay: Annotated[str, OneOf(DECAYS)] = Field(
        "linear", description="how the learning rate decays from its peak: to 0, or not at all"
    )
    weight_decay: NotNegative = Field(0.0, description="weight decay of AdamW")
    warmup: FractionBelowOne = Field(0.0, description="fraction of steps over which the learning rate rises")
    clip: Positive | None = Field(1.0, description="maximum gradient norm; `null`: no clipping")
    label_smoothing: FractionBelowOne = Field(
        0.0,
        description="for [translation](translation.md)",
    )
    sampling: Sampling = Field(
        "proportional", description="how often each task is sampled (Stickland & Murray 2019)"
    )
    checkpoint_minutes: NotNegative = Field(5.0, description="minutes between checkpoints")
    frozen: FrozenTraining = FrozenTraining()
    lora: LoRATraining = LoRATraining()


def learning_rate(step: int, steps: int, peak: float, warmup: float, decay: str) -> float:
    """Return the rate of `step` (from 0): linear warmup over the fraction `warmup` of steps, then a decay."""
    decayed, rise = DECAYS[decay], round(warmup * steps)
    return peak * (step + 1) / rise if step < rise else decayed(peak, step - rise, steps - rise)


def learning_rates(steps: int, peak: float, warmup: float, decay: str) -> list[float]:
    """Return the rates of all `steps` (see `learning_rate`)."""
    return [learning_rate(step, steps, peak, warmup, decay) for step in range(steps)]
