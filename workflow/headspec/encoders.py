"""Loading pretrained encoders, from safetensors only."""

from __future__ import annotations

from pathlib import Path

import torch
from safetensors import SafetensorError
from transformers import AutoModel, PreTrainedModel
from transformers import logging as transformers_logging

from headspec.architectures import architecture, folder, verify
from headspec.errors import EncoderError
from headspec.study import Model

transformers_logging.disable_progress_bar()
transformers_logging.set_verbosity_error()


def load(model: Model, key: str) -> tuple[PreTrainedModel, str]:
    """The pretrained encoder in float32, and its pooling (`first`, `mean` or `last`).

    Raises EncoderError where the weights are not the ones the config names (`sha256`), or do not
    fit the architecture. Remote code is never run.
    """
    path = folder(model, key)
    convention = architecture(path, key, model.source).pooling
    verify(path, model, key)
    try:
        encoder = pretrained(path)
    except (OSError, ValueError, RuntimeError, KeyError, SafetensorError) as error:
        raise EncoderError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None
    return encoder, convention if model.pooling == "auto" else model.pooling


def pretrained(path: Path) -> PreTrainedModel:
    """The encoder in folder `path`; ValueError where weights are missing.

    A pooler without weights is left out: it would be random.
    """
    encoder, info = AutoModel.from_pretrained(
        path, dtype=torch.float32, use_safetensors=True, local_files_only=True,
        trust_remote_code=False, output_loading_info=True,
    )  # fmt: skip
    pooler = {name for name in info["missing_keys"] if name.startswith("pooler.")}
    lacking = set(info["missing_keys"]) - pooler
    if lacking:
        raise ValueError(f"its weights lack {len(lacking)} tensors of the encoder, such as {min(lacking)}")
    if pooler:
        encoder.pooler = None
    return encoder
