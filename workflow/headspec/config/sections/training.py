"""The section `training`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from pydantic import Field

from headspec.sections import Count, FractionBelowOne, NotNegative, Positive, Section

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


class Training(Section):
    """Fine-tuning."""

    epochs: Count = Field(3, description="passes over the training examples")
    batch_size: Count = Field(32, description="examples per step, all of one task")
    learning_rate: Positive = Field(
        2e-5, description="peak learning rate; default of `iat.peak` and `transfer.learning_rate`"
    )
    decoder_learning_rate: Positive | None = Field(
        None,
        description="peak learning rate of the decoders of [words](words.md); `null`: `learning_rate`",
    )
    decay: Literal["linear", "cosine", "constant"] = Field(
        "linear", description="how the learning rate decays from its peak: to 0, or not at all"
    )
    weight_decay: NotNegative = Field(0.0, description="weight decay of AdamW")
    warmup: FractionBelowOne = Field(0.0, description="fraction of steps over which the learning rate rises")
    clip: Positive | None = Field(1.0, description="maximum gradient norm; `null`: no clipping")
    label_smoothing: FractionBelowOne = Field(
        0.0,
        description="for [translation](methods/translation.md)",
    )
    sampling: Sampling = Field(
        "proportional", description="how often each task is sampled (Stickland & Murray 2019)"
    )
    checkpoint_minutes: NotNegative = Field(5.0, description="minutes between checkpoints")
    frozen: FrozenTraining = FrozenTraining()
    lora: LoRATraining = LoRATraining()

    def for_method(self, method: str, unused: Iterable[str] = ()) -> Training:
        """Return the settings by which `method` trains.

        Keys in the section named after the method, such as `frozen`, replace the general ones. Keys without
        effect have their defaults, so that an edit of them reruns nothing: the sections of other methods,
        `checkpoint_minutes`, and those in `unused`.
        """
        sections = {key for key, value in self if isinstance(value, Section)}
        without = {"checkpoint_minutes", *sections, *unused} - {method}
        values = {key: value for key, value in self if key not in without}
        own = {key: value for key, value in values.get(method, ()) if key in Training.model_fields}
        return Training(**values | own)
