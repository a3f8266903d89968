"""Loading by ``from_pretrained`` of transformers: in float32, quantised, or with linear layers in bf16."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec import plugins
from headspec.progress import log

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headspec.config.sections.model import Model


def weights(model: Model) -> dict[str, Any]:
    """Return the arguments of `load` for the weights of a model in a config."""
    return {"dtype": getattr(model, "dtype", "fp32"), "quantization": getattr(model, "quantization", None)}


def location(path: Path) -> dict[str, Any]:
    """Return the arguments of ``from_pretrained`` for a folder or GGUF file; register plugins' types."""
    plugins.register_types()
    arguments: dict[str, Any] = {"local_files_only": True}
    if path.is_file():
        return arguments | {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    return arguments | {"pretrained_model_name_or_path": path}


def silence() -> None:
    """Keep progress bars and warnings of transformers out of the logs of jobs."""
    from transformers import logging

    logging.disable_progress_bar()
    logging.set_verbosity_error()


def load(
    loading: Any, path: Path, dtype: str = "fp32", quantization: str | None = None, **placed: Any
) -> tuple[PreTrainedModel, set[str]]:
    """Load a model without remote code, with `keep_half` for "bf16"; also return names of missing weights.

    `placed` are arguments of ``from_pretrained``, `device_map` and `max_memory`; without any, the model is
    loaded to the CPU.
    Raises ValueError if weights are not finite or, for a `quantization`, are quantised already or none is
    packed; and the errors of ``from_pretrained``.
    """
    import torch

    from headspec.models.attention.placement import keep_places
    from headspec.models.attention.plain_weights import not_finite
    from headspec.models.pretrained import quantized

    silence()
    computes, more = {"fp32": torch.float32, "bf16": torch.bfloat16}[dtype], {}
    if quantization:
        from transformers import AutoConfig

        config = AutoConfig.from_pretrained(**location(path), trust_remote_code=False)
        if getattr(config, "quantization_config", None):
            raise ValueError("it is quantised already (quantization_config in config.json)")
        with torch.device("meta"):
            shape = loading.from_config(config)
        skipped = quantized.outside_encoder(shape)
        more["quantization_config"] = quantized.config(quantization, computes, skipped)
    model, info = loading.from_pretrained(
        **location(path), dtype=computes, use_safetensors=True, trust_remote_code=False,
        output_loading_info=True, **more, **placed,
    )  # fmt: skip
    if problem := not_finite(model):
        raise ValueError(problem)
    if quantization and not quantized.keep_derivatives(model):
        raise ValueError(f"{quantization} packs none of its weights")
    keep_places(model)
    _tell_offloaded(model)
    if dtype == "bf16":
        keep_half(model)
    return model, set(info["missing_keys"])


def _tell_offloaded(model: PreTrainedModel) -> None:
    """Log how much of a model is not on its device, from where each pass reads it."""
    sizes = {True: 0, False: 0}
    for parameter in model.parameters():
        sizes[parameter.is_meta] += parameter.numel()
    if sizes[True]:
        share = sizes[True] / sum(sizes.values())
        log.warning(
            "%.0f %% of the weights do not fit on the device, and are read in each pass; more gpus, dtype: "
            "bf16 or quantization avoid that",
            100 * share,
        )


def keep_half(model: PreTrainedModel) -> None:
    """Keep the linear layers of a model's encoder in bfloat16 unless packed, everything else in float32.

    The encoder runs under autocast, which rounds the weights of these layers anyway: where bfloat16 holds
    them exactly, results equal those of float32 under autocast. Embeddings, sums over layers, normalisation,
    and the head of a language model remain in float32.
    """
    import torch
    from transformers.pytorch_utils import Conv1D

    from headspec.models.attention.placement import device_of
    from headspec.models.attention.projections import is_packed

    encoder: Any = model.base_model
    linear = {module for module in encoder.modules() if isinstance(module, (torch.nn.Linear, Conv1D))}
    for module in model.modules():
        if is_packed(module):
            continue
        if module in linear:
            module.to(torch.bfloat16)
            continue
        for tensor in [*module.parameters(recurse=False), *module.buffers(recurse=False)]:
            if tensor.is_floating_point():
                tensor.data = tensor.data.float()
    forward = encoder.forward

    @functools.wraps(forward)
    def cast(*args: Any, **kwargs: Any) -> Any:
        with torch.autocast(device_of(encoder).type, torch.bfloat16):
            return forward(*args, **kwargs)

    encoder.forward = cast
