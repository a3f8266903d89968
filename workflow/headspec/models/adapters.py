"""Low-rank adapters of weights, W + B A (Hu et al. 2022), during training and in a saved model."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: names of adapters in an encoder to which `peft` has added them
TRAINED = re.compile(r"(.+)\.lora_([AB])\.default\.weight")


def adapters(encoder: PreTrainedModel) -> dict[str, nn.Parameter]:
    """Return the trained adapters: ``<layer>.A`` (rank, in) and ``<layer>.B`` (out, rank) of each layer."""
    found = ((TRAINED.fullmatch(name), parameter) for name, parameter in encoder.named_parameters())
    return {f"{match[1]}.{match[2]}": parameter for match, parameter in found if match}


@torch.no_grad()
def merge(encoder: PreTrainedModel, trained: Mapping[str, torch.Tensor]) -> None:
    """Add `trained`, named as by `adapters`, to the weights of an encoder without adapters."""
    for layer in (name.removesuffix(".A") for name in trained if name.endswith(".A")):
        module = encoder.get_submodule(layer)
        product = trained[f"{layer}.B"] @ trained[f"{layer}.A"]
        # a Linear is (out, in), GPT's Conv1D (in, out)
        module.weight += product if isinstance(module, nn.Linear) else product.T
