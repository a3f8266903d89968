"""Restricted training: adapters instead of weights, and only embeddings of words that occur."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.saved import adapters
from headspec.registry import require
from headspec.seeds import derive
from headspec.training.updates import random_state, set_random_state

if TYPE_CHECKING:
    from peft import LoraModel
    from transformers import PreTrainedModel


def can_be_compact(model: MultiTask) -> bool:
    """Return whether training leaves the embeddings of words that occur in no example unchanged.

    It does not in models that predict words, encoder-decoders, and models with adapters, which belong to the
    full embedding.
    """
    predicts = any(head.whole_vocabulary for head in model.task_heads)
    return not (predicts or model.encoder.config.is_encoder_decoder or adapters(model.encoder))


@contextmanager
def compact_vocabulary(model: MultiTask, examples: dict[str, Examples]) -> Iterator[dict[str, Examples]]:
    """Reduce the word embedding to the rows that `examples` use; yield the renumbered examples.

    This is exact without weight decay: AdamW does not change rows without gradients. The first rows, of
    special tokens, keep their numbers. On exit the trained rows are copied back into the full embedding.
    """
    full = model.encoder.get_input_embeddings()
    used = np.unique(np.concatenate([np.arange(8), *(e.vocabulary() for e in examples.values())]))
    rows = torch.from_numpy(used).to(full.weight.device)
    padding = full.padding_idx if full.padding_idx is not None and full.padding_idx < 8 else None
    small = torch.nn.Embedding.from_pretrained(full.weight.data[rows], freeze=False, padding_idx=padding)
    model.encoder.set_input_embeddings(small)
    try:
        yield {task: e.renumbered(used) for task, e in examples.items()}
    finally:
        full.weight.data[rows] = small.weight.data
        model.encoder.set_input_embeddings(full)


def targets(encoder: PreTrainedModel, layers: str) -> list[str]:
    """Return the names of the linear layers that get adapters.

    `layers` is "all" (of all blocks) or "attention" (only its projections). Raises ModelError if adapters
    cannot be added to a projection.
    """
    from transformers.pytorch_utils import Conv1D  # slow to import

    require("layers with adapters", layers, ("all", "attention"))
    # modules whose names contain the number of a layer
    blocks = {name: module for name, module in encoder.named_modules() if re.search(r"(^|\.)\d+\.", name)}
    attention = {name: module for name, module in blocks.items() if re.search("att", name, re.IGNORECASE)}
    for name, module in attention.items():
        weight = dict(module.named_parameters(recurse=False)).get("weight")
        if (
            weight is not None
            and weight.dim() > 1
            and not isinstance(module, (nn.Linear, Conv1D, nn.Embedding))
        ):
            raise ModelError(
                f"the weights of this {encoder.config.model_type} cannot have adapters: '{name}' is a "
                f"{type(module).__name__}, expected a Linear or Conv1D"
            )
    among = attention if layers == "attention" else blocks
    return [name for name, module in among.items() if isinstance(module, (nn.Linear, Conv1D))]


def size(encoder: PreTrainedModel, rank: int, layers: str) -> int:
    """Return the number of parameters of the adapters that `adapt` adds."""
    return sum(rank * sum(encoder.get_submodule(name).weight.shape) for name in targets(encoder, layers))


def insert(encoder: PreTrainedModel, names: list[str], rank: int, seed: int) -> LoraModel:
    """Add adapters to the layers `names`, freeze all other parameters, and return peft's model.

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


def adapt(model: MultiTask, rank: int, layers: str, seed: int, device: Device) -> None:
    """Add adapters to the encoder, freeze its other weights, and gate heads before adapters, too.

    Where autocast multiplies in bfloat16, the frozen weights of layers with adapters are stored in bfloat16,
    for the same results in half the memory. Raises ModelError as `targets`.
    """
    encoder = model.encoder
    insert(encoder, targets(encoder, layers), rank, derive(seed, "adapters"))
    model.gates = HeadGates(encoder)
    for module in encoder.modules():
        if device.autocast and hasattr(module, "base_layer"):
            module.base_layer.to(getattr(torch, device.autocast))
