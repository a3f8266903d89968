"""Which transformers can be gated, as data: one line per model type.

Everything here works without torch, so that a wrong model is refused before any job starts.
docs/architectures.md says how to add a line.
"""

from __future__ import annotations

import hashlib
import json
import struct
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from headspec.errors import EncoderError, HeadspecError, listing
from headspec.locate import locate

if TYPE_CHECKING:
    from headspec.sections import Model, Pooling
    from headspec.study import Study


@dataclass(frozen=True)
class Architecture:
    """Where a model type's heads meet, and how it is made into a sentence vector.

    Attributes
    ----------
    projection : name of every attention output projection W_O inside `AutoModel`, ``*`` for numbers
        Its input is (batch, tokens, heads * head size): the one place, in every implementation of
        attention, where heads are still apart.
    pooling : the convention of `pooling: auto`
        ``first`` goes through the pooler where the weights have one. Decoders need ``last``: only
        their last token has seen the whole text.
    inputs : names of the linear layers, or parameters, that make queries, keys and values
        Each ``*`` stands for the number that it stands for in `projection`. What a model has not
        (DeBERTa's position projections depend on its config) is left out.
    interleaved : whether a layer that makes all three has a head's query, key and value side by side
        (DeBERTa); else all queries come first, then all keys, then all values
    reserved : position embeddings that no token gets (RoBERTa's positions begin behind padding's)
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

FETCHED = ["*.json", "*.txt", "*.model", "model*.safetensors"]


def folder(model: Model, key: str) -> Path:
    """Where a model's files are: a local folder, a GGUF file, or a folder of the hub's cache.

    Of a hub model the cache is enough, where it has the weights; else they are fetched.

    Raises
    ------
    EncoderError
        Not in the cache, and no connection or no such model.
    DataError
        No such package, file or folder.
    """
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    found = cached(model)
    if found:
        return found
    from huggingface_hub import constants, errors, snapshot_download

    name, revision = hub_name(model)
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=FETCHED))
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such model, or it needs a login"
    except errors.RevisionNotFoundError:
        reason = "the model has no such revision"
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        reason = f"no connection to the hub ({type(error).__name__})"
    raise EncoderError(
        f"{key}.source: '{model.source}' is not in the cache {constants.HF_HUB_CACHE} (set by HF_HOME) "
        f"and cannot be fetched: {reason}. With a connection, `hf download {name}"
        f"{f' --revision {revision}' if revision else ''}` puts it there"
    )


def cached(model: Model) -> Path | None:
    """The folder of a hub model in the cache, if it has config and weights; asks no network."""
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except errors.LocalEntryNotFoundError:
        return None
    return path if (path / "config.json").exists() and _has_weights(path) else None


def hub_name(model: Model) -> tuple[str, str | None]:
    """Name and revision (a commit, a tag or a branch; None: the main one) of a hub model."""
    name, _, revision = model.source.removeprefix("hub:").partition("@")
    return name, revision or None


def _has_weights(path: Path) -> bool:
    """Whether all of the weights are there, in one file or in several."""
    if (path / "model.safetensors").exists():
        return True
    try:
        index = json.loads((path / "model.safetensors.index.json").read_text())
    except FileNotFoundError:
        return False
    return all((path / name).exists() for name in set(index["weight_map"].values()))


def settings(path: Path, key: str, source: str) -> dict[str, Any]:
    """What the model's own config says; of a GGUF file only its `model_type`."""
    if path.is_file() and path.suffix != ".gguf":
        raise EncoderError(f"{key}.source: '{source}' is a file; expected the model's folder, or a GGUF file")
    try:
        if path.is_file():
            return {"model_type": _gguf_type(path)}
        return json.loads((path / "config.json").read_text())
    except (OSError, ValueError, struct.error) as error:
        what = "is no GGUF file" if path.is_file() else "has no readable config.json"
        files = [] if path.is_file() else sorted(file.name for file in path.glob("*.gguf"))
        hint = f". Did you mean '{source}/{files[0]}'?" if files else ""
        raise EncoderError(f"{key}.source: '{source}' {what} ({error}){hint}") from None


def _gguf_type(path: Path) -> str:
    """`general.architecture`, with which GGUF files begin (reading them whole takes seconds)."""
    with open(path, "rb") as file:
        magic, _, _, _, size = struct.unpack("<4sIQQQ", file.read(32))
        name = file.read(min(size, 64)).decode(errors="replace")
        kind, length = struct.unpack("<IQ", file.read(12))
        if magic != b"GGUF" or name != "general.architecture" or kind != 8:
            raise ValueError("it does not begin with its architecture")
        return file.read(min(length, 64)).decode(errors="replace")


def architecture(path: Path, model: Model, key: str) -> Architecture:
    """The table's entry for the model at `path`.

    Raises
    ------
    EncoderError
        Its heads cannot be gated, or it has no safetensors or GGUF weights.
    """
    own = settings(path, key, model.source)
    kind = own.get("model_type")
    if kind not in ARCHITECTURES:
        raise EncoderError(
            f"{key}.source: the heads of '{model.source}' cannot be gated: its model type is {kind!r}; "
            f"expected one of {listing(ARCHITECTURES)}; docs/architectures.md says how to add one"
        )
    if path.is_dir() and not _has_weights(path):
        found = sorted(p.name for p in path.iterdir() if p.suffix in (".bin", ".pt", ".h5", ".gguf"))
        has = f"; it has {listing(found)}" if found else ""
        raise EncoderError(
            f"{key}.source: '{model.source}' has no whole safetensors weights (model.safetensors) in "
            f"{path}{has}; pickled weights are not loaded, a GGUF file is named with its path"
        )
    return ARCHITECTURES[kind]


def check_length(path: Path, model: Model, key: str) -> None:
    """EncoderError where `max_length` is more tokens than the model at `path` has positions for."""
    own = settings(path, key, model.source)
    positions = own.get("max_position_embeddings", own.get("n_positions"))
    if not positions or not own.get("position_biased_input", True):
        return  # DeBERTa's are relative
    longest = positions - ARCHITECTURES[own["model_type"]].reserved
    if model.max_length > longest:
        raise EncoderError(
            f"{key}.max_length: got {model.max_length}, but '{model.source}' has positions for "
            f"{longest} tokens; expected at most that"
        )


def verify(path: Path, model: Model, key: str) -> None:
    """EncoderError where the weights at `path` are not the ones that the config names."""
    if model.sha256 is None:
        return
    file = path if path.is_file() else path / "model.safetensors"
    if not file.exists():
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' are in several files, "
            "expected one (model.safetensors)"
        )
    with open(file, "rb") as weights:
        found = hashlib.file_digest(weights, "sha256").hexdigest()
    if not found.startswith(model.sha256.lower()):
        raise EncoderError(
            f"{key}.sha256: the weights of '{model.source}' have SHA-256 {found}, expected {model.sha256}"
        )


def check_model(path: Path, model: Model, key: str) -> None:
    """EncoderError where the model at `path` cannot be gated, or is not what the config says."""
    architecture(path, model, key)
    check_length(path, model, key)
    verify(path, model, key)


def check(study: Study) -> None:
    """Refuse, with one EncoderError for all of them, models that cannot be loaded or gated.

    A hub model that is not in the cache is met when it is fetched, by the first job that needs it.
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
