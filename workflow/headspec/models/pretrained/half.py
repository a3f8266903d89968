"""Models whose linear layers are kept in bfloat16, in half the memory."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: `dtype` of a model in the config
DTYPES = {"fp32": torch.float32, "bf16": torch.bfloat16}


def keep_half(model: PreTrainedModel) -> None:
    """Keep the linear layers of a model's encoder in bfloat16, all else in float32.

    The encoder runs under autocast, which would round the weights of these layers before it multiplies in any
    case: of weights that bfloat16 can hold, the numbers are those of float32 under autocast. Embeddings, sums
    over layers, normalisation, and the head of a language model remain in float32.
    """
    from transformers.pytorch_utils import Conv1D  # slow to import

    encoder: Any = model.base_model
    linear = {module for module in encoder.modules() if isinstance(module, (nn.Linear, Conv1D))}
    for module in model.modules():
        if module in linear:
            module.to(torch.bfloat16)
            continue
        for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            if tensor.is_floating_point():
                tensor.data = tensor.data.float()
    forward = encoder.forward

    @functools.wraps(forward)
    def cast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(next(encoder.parameters()).device.type, torch.bfloat16):
            return forward(*args, **kwargs)

    encoder.forward = cast
