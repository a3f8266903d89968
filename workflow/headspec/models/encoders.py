"""Encoders, pretrained (loaded from safetensors or GGUF) or randomly initialised."""

from __future__ import annotations

import gc
import hashlib
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from safetensors import SafetensorError

from headspec.errors import ModelError
from headspec.models.architectures import writes
from headspec.models.pretrained import config_json, from_pretrained
from headspec.models.pretrained.checks import architecture, verify
from headspec.models.pretrained.config_json import is_described, settings
from headspec.models.pretrained.folders import folder, hub_name, located
from headspec.models.pretrained.model_files import CONFIG, weight_files
from headspec.provenance import files
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedConfig, PreTrainedModel

    from headspec.config.sections.model import Model

#: `weights` of models that are not pretrained
RANDOM = "random"
#: names in configs for the dropout before a classifier, the most specific first
DROPOUTS = [
    "classifier_dropout", "classifier_dropout_prob", "cls_dropout", "seq_classif_dropout",
    "hidden_dropout_prob", "resid_pdrop",
]  # fmt: skip


def load(model: Model, key: str, seed: int = 0) -> PreTrainedModel:
    """Return a model's encoder.

    `seed` draws the weights of a model that the config describes, or whose `weights` are random. Raises
    ModelError if the model is refused or cannot be loaded, or its weights do not have the SHA-256 in the
    config; and the errors of `folders.folder`.
    """
    if is_described(model):
        return fresh(model, seed)
    path = folder(model, key, "weights")
    architecture(path, model, key)
    verify(path, model, key)
    try:
        encoder = pretrained(path, **from_pretrained.weights(model))
        if getattr(model, "weights", None) == RANDOM:
            draw(encoder, seed)
    except (OSError, ValueError, RuntimeError, KeyError, NotImplementedError, SafetensorError) as error:
        reason = " ".join(str(error).split())  # may have several lines
        raise ModelError(f"{key}.source: '{model.source}' cannot be loaded: {reason}") from None
    return encoder


def fresh(model: Model, seed: int) -> PreTrainedModel:
    """Return an encoder-decoder with the sizes in a config and random weights drawn by `seed`."""
    from transformers import AutoConfig, AutoModelForSeq2SeqLM

    from_pretrained.silence()
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "fresh weights"))
        config = AutoConfig.for_model(**config_json.described_config(model))
        return AutoModelForSeq2SeqLM.from_config(config, dtype=torch.float32)


def draw(encoder: PreTrainedModel, seed: int) -> None:
    """Replace the weights of an encoder by random weights, as at the start of pretraining."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(derive(seed, "fresh weights"))
        drawn = type(encoder)(encoder.config).state_dict()
    encoder.load_state_dict({name: drawn[name] for name in encoder.state_dict()})


def reference(model: Model, key: str) -> dict[str, str]:
    """Return what identifies an encoder: `source` (with the commit of a hub model) and `sha256` of its files.

    `dtype` and `quantization` are included where they are not the default. Files are hashed, because names
    and shapes of tensors depend on the version of transformers.
    """
    path = located(model, key)
    hub = model.source.startswith("hub:")  # where a model's folder is named by its commit
    source = f"hub:{hub_name(model)[0]}@{path.name}" if hub else model.source
    parts = [path] if path.is_file() else sorted([path / CONFIG, *weight_files(path)])
    names = [f"{part.name if path.is_dir() else ''} {files.sha256(part)}\n" for part in parts]
    usual = {"dtype": "fp32", "quantization": None}
    kept = {key: value for key, value in from_pretrained.weights(model).items() if value != usual[key]}
    return {"source": source, "sha256": hashlib.sha256("".join(names).encode()).hexdigest()} | kept


def pretrained(path: Path, dtype: str = "fp32", quantization: str | None = None) -> PreTrainedModel:
    """Load the encoder at `path`, a folder or a GGUF file, or an encoder-decoder with its head for tokens.

    A pooler without weights is removed, because it would be random. ValueError if other weights are missing
    or `from_pretrained.load` raises it.
    """
    gc.disable()  # importing transformers' models leaves no garbage; collection takes a sixth of the time
    try:
        from transformers import AutoModel, AutoModelForSeq2SeqLM

        loading = AutoModelForSeq2SeqLM if writes(settings(path, "model", str(path))) else AutoModel
        encoder, missing = from_pretrained.load(loading, path, dtype, quantization)
    finally:
        gc.enable()
    pooler = {name for name in missing if name.startswith("pooler.")}
    missing -= pooler | {"final_logits_bias"}  # zeros, in BART and Marian
    if missing:
        raise ValueError(f"its weights lack {len(missing)} tensors of the encoder, such as {min(missing)}")
    if pooler:
        encoder.pooler = None
    return encoder


def classifier_dropout(config: PreTrainedConfig) -> float:
    """Return the architecture's dropout before a classifier; 0 if it has none (Llama)."""
    rates = [getattr(config, name, None) for name in DROPOUTS]
    return next((rate for rate in rates if rate is not None), 0.0)
