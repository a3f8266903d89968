"""The model types whose heads can be gated, as a table, and checks of a model's files.

Nothing here needs torch, so that a wrong model is refused before any job starts. docs/architectures.md
explains how to add a model type.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

from headspec.config.sources import locate
from headspec.errors import EncoderError, HeadspecError, listing, shown

if TYPE_CHECKING:
    from headspec.config.sections.model import Model, Pooling
    from headspec.config.study import Study


@dataclass(frozen=True)
class Architecture:
    """The attention projections of a model type, and its sentence vector.

    Attributes
    ----------
    projection : names of the attention output projections W_O inside `AutoModel`, with ``*`` for numbers
        Their input, (batch, tokens, heads * head size), is the one place where heads are separate in
        every implementation of attention.
    pooling : the meaning of `pooling: auto`
        ``first`` includes the pooler if the weights have one. Decoders need ``last``, because only the
        last token attends to the whole text.
    inputs : names of the linear layers or parameters that compute queries, keys and values
        A ``*`` stands for the same number as in `projection`. Names that a model lacks are skipped:
        DeBERTa's position projections depend on its config.
    interleaved : order of the output of a layer that computes queries, keys and values
        If true, head by head (DeBERTa); else all queries, then all keys, then all values.
    reserved : number of position embeddings that no token uses (RoBERTa's positions start after padding)
    """

    projection: str
    pooling: Pooling
    inputs: tuple[str, ...]
    interleaved: bool = False
    reserved: int = 0


def _each(attention: str, *names: str) -> tuple[str, ...]:
    return tuple(f"{attention}.{name}" for name in names)


BERT = Architecture(
    "encoder.layer.*.attention.output.dense",
    "first",
    _each("encoder.layer.*.attention.self", "query", "key", "value"),
)
ROBERTA = replace(BERT, reserved=2)
POSITIONS = "pos_proj", "pos_q_proj", "pos_key_proj", "pos_query_proj"  # of DeBERTa
GPT = Architecture("h.*.attn.c_proj", "last", ("h.*.attn.c_attn",))
LLAMA = Architecture(
    "layers.*.self_attn.o_proj", "last", _each("layers.*.self_attn", "q_proj", "k_proj", "v_proj")
)

ARCHITECTURES: dict[str, Architecture] = {
    "bert": BERT,
    "roberta": ROBERTA,
    "xlm-roberta": ROBERTA,
    "camembert": ROBERTA,
    "electra": BERT,
    "deberta": replace(
        BERT,
        inputs=_each("encoder.layer.*.attention.self", "in_proj", "q_bias", "v_bias", *POSITIONS),
        interleaved=True,
    ),
    "deberta-v2": replace(  # and v3
        BERT,
        inputs=_each("encoder.layer.*.attention.self", "query_proj", "key_proj", "value_proj", *POSITIONS),
    ),
    "albert": Architecture(
        "encoder.albert_layer_groups.*.albert_layers.*.attention.dense",
        "first",
        _each("encoder.albert_layer_groups.*.albert_layers.*.attention", "query", "key", "value"),
    ),
    "distilbert": Architecture(
        "transformer.layer.*.attention.out_lin",
        "first",
        _each("transformer.layer.*.attention", "q_lin", "k_lin", "v_lin"),
    ),
    "mpnet": Architecture(
        "encoder.layer.*.attention.attn.o",
        "mean",
        _each("encoder.layer.*.attention.attn", "q", "k", "v"),
        reserved=2,
    ),
    "modernbert": Architecture("layers.*.attn.Wo", "mean", ("layers.*.attn.Wqkv",)),
    "gpt2": GPT,
    "openai-gpt": GPT,
    "llama": LLAMA,
    "qwen2": LLAMA,
    "qwen3": LLAMA,
    "mistral": LLAMA,
}

#: sizes in configs, under the names of different architectures
SIZES = (
    "max_position_embeddings", "n_positions", "num_hidden_layers", "n_layer", "n_layers",
    "num_attention_heads", "n_head", "n_heads",
)  # fmt: skip
FETCHED = ["*.json", "*.txt", "*.model", "model*.safetensors"]


def folder(model: Model, key: str) -> Path:
    """The local path of a model: a folder, a GGUF file, or a folder in the hub's cache.

    A hub model whose weights are not in the cache is downloaded.

    Raises
    ------
    EncoderError
        A hub model is not in the cache and cannot be downloaded.
    DataError
        There is no such package, file or folder.
    """
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    if path := cached(model):
        return path
    from huggingface_hub import constants, errors, snapshot_download

    name, revision = hub_name(model)
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=FETCHED))
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such model, or requires a login"
    except errors.HFValidationError:
        reason = "models of the hub have no such names"
    except errors.RevisionNotFoundError:
        reason = "the model has no such revision"
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        reason = f"no connection to the hub ({type(error).__name__})"
    raise EncoderError(
        f"{key}.source: '{model.source}' is not in the cache {constants.HF_HUB_CACHE} (set by HF_HOME) "
        f"and cannot be downloaded: {reason}. With a connection, `hf download {name}"
        f"{f' --revision {revision}' if revision else ''}` downloads it"
    )


def cached(model: Model) -> Path | None:
    """The folder of a hub model in the cache, if it has config and weights; uses no network."""
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None
    return path if (path / "config.json").exists() and _has_weights(path) else None


def hub_name(model: Model) -> tuple[str, str | None]:
    """Name and revision (commit, tag or branch; None: the main branch) of a hub model."""
    name, _, revision = model.source.removeprefix("hub:").partition("@")
    return name, revision or None


def _has_weights(path: Path) -> bool:
    """Whether all safetensors files are there, one or several."""
    if (path / "model.safetensors").exists():
        return True
    try:
        index = json.loads((path / "model.safetensors.index.json").read_text())
        names = set(index["weight_map"].values())
        return all(name.endswith(".safetensors") and (path / name).exists() for name in names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # none, or no index
        return False


def settings(path: Path, key: str, source: str) -> dict[str, Any]:
    """The content of the model's config.json; for a GGUF file only its `model_type`."""
    if path.is_file() and path.suffix != ".gguf":
        raise EncoderError(f"{key}.source: '{source}' is a file; expected the model's folder, or a GGUF file")
    try:
        if path.is_file():
            return {"model_type": _gguf_type(path)}
        return _checked(json.loads((path / "config.json").read_text()))
    except (OSError, ValueError, RecursionError, struct.error) as error:
        problem = "is not a GGUF file" if path.is_file() else "has no readable config.json"
        files = [] if path.is_file() else sorted(file.name for file in path.glob("*.gguf"))
        hint = f". Did you mean '{source}/{files[0]}'?" if files else ""
        raise EncoderError(f"{key}.source: '{source}' {problem} ({error}){hint}") from None


def _checked(config: Any) -> dict[str, Any]:
    """A config.json; ValueError where it is no mapping, or a size in it no number."""
    if not isinstance(config, dict) or not isinstance(config.get("model_type"), (str, NoneType)):
        raise ValueError("it names no model type")
    for name in SIZES:
        if not isinstance(config.get(name), (int, NoneType)):
            raise ValueError(f"{name} is {shown(config[name])}, expected a whole number")
    return config


def _gguf_type(path: Path) -> str:
    """`general.architecture` from the start of a GGUF file; parsing the whole file would take seconds."""
    with open(path, "rb") as file:
        magic, _, _, _, size = struct.unpack("<4sIQQQ", file.read(32))
        name = file.read(min(size, 64)).decode(errors="replace")
        kind, length = struct.unpack("<IQ", file.read(12))
        if magic != b"GGUF" or name != "general.architecture" or kind != 8:
            raise ValueError("it does not start with its architecture")
        return file.read(min(length, 64)).decode(errors="replace")


def architecture(path: Path, model: Model, key: str) -> Architecture:
    """The entry of `ARCHITECTURES` for the model at `path`.

    Raises
    ------
    EncoderError
        Its heads cannot be gated, or it has neither safetensors nor GGUF weights.
    """
    kind = settings(path, key, model.source).get("model_type")
    if kind not in ARCHITECTURES:
        raise EncoderError(
            f"{key}.source: the heads of '{model.source}' cannot be gated: its model type is {kind!r}; "
            f"expected one of {listing(ARCHITECTURES)}. docs/architectures.md explains how to add one"
        )
    if path.is_dir() and not _has_weights(path):
        others = sorted(p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(others)}" if others else ""
        raise EncoderError(
            f"{key}.source: '{model.source}' has no complete safetensors weights (model.safetensors) in "
            f"{path}{has}. Pickled weights are not loaded; for a GGUF file, write the path of the file"
        )
    return ARCHITECTURES[kind]


def positions(config: Mapping[str, Any]) -> int | None:
    """The most tokens that a model with this config.json takes; None if any number."""
    stored = config.get("max_position_embeddings", config.get("n_positions"))
    if not stored or not config.get("position_biased_input", True):
        return None  # DeBERTa's positions are relative
    return stored - ARCHITECTURES[config["model_type"]].reserved


def check_length(path: Path, model: Model, key: str) -> None:
    """EncoderError if `max_length` exceeds the positions of the model at `path`."""
    longest = positions(settings(path, key, model.source))
    if longest is not None and model.max_length > longest:
        raise EncoderError(
            f"{key}.max_length: got {model.max_length}, but '{model.source}' has positions for "
            f"{longest} tokens; expected at most that"
        )


def verify(path: Path, model: Model, key: str) -> None:
    """EncoderError if the weights at `path` do not have the SHA-256 in the config."""
    if model.sha256 is None:
        return
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' are in several files, "
            "expected one (model.safetensors)"
        )
    with open(file, "rb") as weights:
        digest = hashlib.file_digest(weights, "sha256").hexdigest()
    if not digest.startswith(model.sha256.lower()):
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' have SHA-256 {digest}, expected {model.sha256}"
        )


def check_model(path: Path, model: Model, key: str) -> None:
    """EncoderError if the model at `path` cannot be gated, or disagrees with the config."""
    architecture(path, model, key)
    check_length(path, model, key)
    verify(path, model, key)


def check(study: Study) -> None:
    """One EncoderError for all models of the study that cannot be loaded or gated.

    A hub model that is not in the cache is checked by the first job that downloads it.
    """
    problems = []
    for name, model in study.models.items():
        key = f"models.{name}"
        try:
            path = cached(model) if model.source.startswith("hub:") else folder(model, key)
            if path:
                check_model(path, model, key)
        except HeadspecError as error:
            problems.append(error)
    if problems:
        raise EncoderError.of(problems)
