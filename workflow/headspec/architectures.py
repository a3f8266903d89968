"""Which transformers can be gated, as data: one line per model type.

Everything here works without torch, so that a wrong model is refused before any job starts.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from pathlib import Path

from headspec.errors import EncoderError, HeadspecError, listing
from headspec.readers import locate
from headspec.study import Model, Pooling, Study


@dataclass(frozen=True)
class Architecture:
    """Where a model type's heads meet, and how it is made into a sentence vector.

    `projection` is the name of every attention output projection W_O inside `AutoModel`, with
    ``*`` for numbers. Its input is (batch, tokens, heads * head size): the one place, in every
    implementation of attention, where heads are still apart.
    """

    projection: str
    pooling: Pooling


BERT = Architecture("encoder.layer.*.attention.output.dense", "first")
GPT = Architecture("h.*.attn.c_proj", "last")
LLAMA = Architecture("layers.*.self_attn.o_proj", "last")

ARCHITECTURES: dict[str, Architecture] = {
    "bert": BERT,
    "roberta": BERT,
    "xlm-roberta": BERT,
    "camembert": BERT,
    "electra": BERT,
    "deberta": BERT,
    "deberta-v2": BERT,
    "albert": Architecture("encoder.albert_layer_groups.*.albert_layers.*.attention.dense", "first"),
    "distilbert": Architecture("transformer.layer.*.attention.out_lin", "first"),
    "mpnet": Architecture("encoder.layer.*.attention.attn.o", "mean"),
    "modernbert": Architecture("layers.*.attn.Wo", "first"),
    "gpt2": GPT,
    "openai-gpt": GPT,
    "llama": LLAMA,
    "qwen2": LLAMA,
    "mistral": LLAMA,
}

WEIGHTS = ("model.safetensors", "model.safetensors.index.json")


def folder(model: Model, key: str) -> Path:
    """The local folder of a model's files; a hub model is looked up in, or fetched to, the cache.

    Raises EncoderError where there is no such folder, no safetensors weights, or no connection.
    """
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    from huggingface_hub import constants, errors, snapshot_download

    name, _, revision = model.source.removeprefix("hub:").partition("@")
    try:
        wanted = ["*.json", "*.txt", "*.model", "model*.safetensors"]
        return Path(snapshot_download(name, revision=revision or None, allow_patterns=wanted))
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        raise EncoderError(
            f"{key}.source: '{model.source}' is not in the cache {constants.HF_HUB_CACHE} "
            f"and cannot be fetched ({type(error).__name__})"
        ) from None


def architecture(path: Path, key: str, source: str) -> Architecture:
    """The table's entry for the model in folder `path`; EncoderError where it cannot be gated."""
    try:
        settings = json.loads((path / "config.json").read_text())
    except (OSError, ValueError) as error:
        raise EncoderError(f"{key}.source: '{source}' has no readable config.json ({error})") from None
    kind = settings.get("model_type")
    if kind not in ARCHITECTURES:
        raise EncoderError(
            f"{key}.source: the heads of '{source}' cannot be gated: its model type is {kind!r}; "
            f"expected one of {listing(ARCHITECTURES)}"
        )
    if not any((path / name).exists() for name in WEIGHTS):
        found = sorted(p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(found)}, which is not loaded" if found else ""
        raise EncoderError(f"{key}.source: '{source}' has no safetensors weights (model.safetensors){has}")
    return ARCHITECTURES[kind]


def verify(path: Path, model: Model, key: str) -> None:
    """EncoderError where the weights in folder `path` are not the ones that the config names."""
    if model.sha256 is None:
        return
    if not (path / "model.safetensors").exists():
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' are in several files, "
            "expected one (model.safetensors)"
        )
    with open(path / "model.safetensors", "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    if not found.startswith(model.sha256.lower()):
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' have SHA-256 {found}, expected {model.sha256}"
        )


def check(study: Study) -> None:
    """Refuse, with one EncoderError for all of them, models that cannot be loaded or gated.

    Hub models are met on loading.
    """
    problems = []
    for name, model in study.models.items():
        key = f"models.{name}"
        if not model.source.startswith("hub:"):
            try:
                path = folder(model, key)
                architecture(path, key, model.source)
                verify(path, model, key)
            except HeadspecError as error:
                problems.append(str(error))
    if problems:
        raise EncoderError("\n".join(problems))
