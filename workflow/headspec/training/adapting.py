"""Low-rank adapters, trained instead of a model's weights."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import torch
from torch import nn

from headspec.errors import EncoderError
from headspec.models.devices import Device
from headspec.registry import require
from headspec.seeds import derive
from headspec.training.microbatches import random_state, set_random_state

if TYPE_CHECKING:
    from peft import LoraModel
    from transformers import PreTrainedModel


def targets(encoder: PreTrainedModel, layers: str) -> list[str]:
    """Return the names of the linear layers that get adapters.

    `layers` is "all" (of all blocks) or "attention" (only its projections). Raises EncoderError if adapters
    cannot be added to a projection.
    """
    from transformers.pytorch_utils import Conv1D  # slow to import

    require("layers with adapters", layers, ("all", "attention"))
    # modules whose names have the number of a layer
    blocks = {name: module for name, module in encoder.named_modules() if re.search(r"(^|\.)\d+\.", name)}
    attention = {name: module for name, module in blocks.items() if re.search("att", name, re.IGNORECASE)}
    for name, module in attention.items():
        weight = dict(module.named_parameters(recurse=False)).get("weight")
        if (
            weight is not None
            and weight.dim() > 1
            and not isinstance(module, (nn.Linear, Conv1D, nn.Embedding))
        ):
            raise EncoderError(
                f"the weights of this {encoder.config.model_type} cannot have adapters: '{name}' is a "
                f"{type(module).__name__}, expected a Linear or Conv1D"
            )
    among = attention if layers == "attention" else blocks
    return [name for name, module in among.items() if isinstance(module, (nn.Linear, Conv1D))]


def size(encoder: PreTrainedModel, rank: int, layers: str) -> int:
    """Return the number of parameters of the adapters that `adapt` adds."""
    return sum(rank * sum(encoder.get_submodule(name).weight.shape) for name in targets(encoder, layers))


def insert(encoder: PreTrainedModel, names: list[str], rank: int, seed: int) -> LoraModel:
    """Add adapters to the layers `names`; all other parameters lose their gradients.

    Their scale is 1 (``lora_alpha`` equals the rank), as if W itself learnt B A. There is no dropout; B is
    initially zero, and `seed` determines the initial A.
    """
    from peft import LoraConfig, LoraModel  # slow to import, and only needed here

    config = LoraConfig(
        r=rank,
        lora_alpha=rank,
        target_modules=names,
        fan_in_fan_out=not isinstance(encoder.get_submodule(names[0]), nn.Linear),
    )
    before_drawing = random_state()
    torch.manual_seed(seed)
    inserted = LoraModel(encoder, config, "default")
    set_random_state(before_drawing)
    return inserted


def adapt(encoder: PreTrainedModel, rank: int, layers: str, seed: int, device: Device) -> None:
    """Add adapters to the encoder, whose other weights stay fixed.

    Where autocast multiplies in bfloat16, these are stored in bfloat16: the same numbers in half the memory.
    """
    insert(encoder, targets(encoder, layers), rank, derive(seed, "adapters"))
    for module in encoder.modules():
        if device.autocast and hasattr(module, "base_layer"):
            module.base_layer.to(getattr(torch, device.autocast))
