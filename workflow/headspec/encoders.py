"""Loading pretrained encoders, from safetensors or GGUF: formats that hold numbers and no code."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from safetensors import SafetensorError
from transformers import AutoModel, PreTrainedModel
from transformers import logging as transformers_logging

from headspec.architectures import architecture, folder, verify
from headspec.errors import EncoderError

if TYPE_CHECKING:
    from headspec.sections import Model

transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


def load(model: Model, key: str) -> tuple[PreTrainedModel, str]:
    """The pretrained encoder in float32, and its pooling (`first`, `mean` or `last`).

    Raises EncoderError where the weights are not the ones the config names (`sha256`), or do not
    fit the architecture. Remote code is never run.
    """
    path = folder(model, key)
    convention = architecture(path, model, key).pooling
    verify(path, model, key)
    try:
        encoder = pretrained(path)
    except (OSError, ValueError, RuntimeError, KeyError, NotImplementedError, SafetensorError) as error:
        raise EncoderError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None
    return encoder, convention if model.pooling == "auto" else model.pooling


def pretrained(path: Path) -> PreTrainedModel:
    """The encoder at `path`, a folder or a GGUF file; ValueError where weights are missing.

    A pooler without weights is left out: it would be random. Numbers are stored in few bits in
    most GGUF files; they become float32.
    """
    encoder, info = AutoModel.from_pretrained(
        **location(path), dtype=torch.float32, use_safetensors=True, trust_remote_code=False,
        output_loading_info=True,
    )  # fmt: skip
    pooler = {name for name in info["missing_keys"] if name.startswith("pooler.")}
    lacking = set(info["missing_keys"]) - pooler
    if lacking:
        raise ValueError(f"its weights lack {len(lacking)} tensors of the encoder, such as {min(lacking)}")
    if pooler:
        encoder.pooler = None
    return encoder


def location(path: Path) -> dict[str, Any]:
    """Arguments of ``from_pretrained`` for a folder or a GGUF file."""
    where: dict[str, Any] = {"local_files_only": True}
    if path.is_file():
        return where | {"pretrained_model_name_or_path": path.parent, "gguf_file": path.name}
    return where | {"pretrained_model_name_or_path": path}
