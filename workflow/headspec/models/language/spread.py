"""Models that are only evaluated, with their layers on several GPUs, by accelerate."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from headspec.errors import EncoderError

if TYPE_CHECKING:
    from headspec.models.multitask import MultiTask


def device_map(model: MultiTask, key: str, memory: Mapping[int, int] | None = None) -> dict[str, int]:
    """Return the GPU of each module of the encoder: whole layers, in about equal shares.

    `memory` is free bytes by GPU, by default of this process's GPUs. EncoderError, with `key`, if weights do
    not fit.
    """
    import torch
    from accelerate import infer_auto_device_map
    from accelerate.utils import get_balanced_memory

    encoder = model.encoder
    parts = model.gates.sites[0].name.split(".")
    number = next(i for i, part in enumerate(parts) if part.isdecimal())
    layer = [type(encoder.get_submodule(".".join(parts[: number + 1]))).__name__]
    if memory is None:
        balanced = get_balanced_memory(encoder, no_split_module_classes=layer)
        memory = {gpu: balanced[gpu] for gpu in range(torch.cuda.device_count())}
    found = infer_auto_device_map(encoder, {**memory}, no_split_module_classes=layer)
    if left := [name for name, place in found.items() if place not in memory]:
        size = sum(tensor.numel() * tensor.element_size() for tensor in encoder.state_dict().values())
        raise EncoderError(
            f"{key}.gpus: got {len(memory)}, which have no room for '{left[0]}' and what "
            f"follows; the weights have {size / 1e9:,.1f} GB. Expected more GPUs, or `dtype: bf16`"
        )
    return found


def dispatch(model: MultiTask, devices: Mapping[str, int]) -> None:
    """Put each module of the encoder on its device for good; inputs, outputs and heads on the first GPU."""
    from accelerate import dispatch_model

    encoder: Any = model.encoder
    dispatch_model(encoder, {**devices}, main_device=next(iter(devices.values())), force_hooks=True)
    encoder._apply = lambda fn, recurse=True: encoder
