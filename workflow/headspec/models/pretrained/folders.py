"""The files of a model: at a local path, or in the cache of the hub."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from headspec.config import hub
from headspec.config.sources import locate
from headspec.errors import EncoderError

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: files that transformers opens in a model's folder beside weights
TEXTS = ("*.json", "*.jinja", "*.txt", "*.model", "*.spm", "*.codes", "*.tokenizer")
FETCHED = (*TEXTS, "model*.safetensors")
DESCRIBING = ("*config.json", "modules.json")
WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"


def folder(model: Model, key: str, files: Sequence[str] = FETCHED) -> Path:
    """Return the local path of a model, a folder or GGUF file; a hub model is downloaded if not cached.

    `files` are patterns of the files to download. Raises EncoderError if a hub model is not in the cache and
    cannot be downloaded, DataError if there is no such package, file or folder.
    """
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    if path := cached(model):
        return path
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=[*files]))
    except errors.RepositoryNotFoundError:
        reason = "the hub has no such model, or requires a login"
    except errors.HFValidationError:
        reason = "models of the hub have no such names"
    except errors.RevisionNotFoundError:
        reason = "the model has no such revision"
    except (errors.HfHubHTTPError, errors.LocalEntryNotFoundError, OSError) as error:
        reason = f"no connection to the hub ({str(error.__cause__ or error).splitlines()[0]})"
    raise _unavailable(model, key, reason)


def planned(model: Model, key: str) -> Path:
    """Return `folder` for planning: a hub model may lack weights, and the hub is asked only once."""
    if model.source.startswith("hub:") and not cached(model) and (reason := hub.unreachable()):
        raise _unavailable(model, key, f"no connection to the hub ({reason})")
    return folder(model, key, DESCRIBING)


def _unavailable(model: Model, key: str, reason: str) -> EncoderError:
    """Return the error for a hub model that is not in the cache and cannot be downloaded."""
    from huggingface_hub import constants

    name, revision = hub_name(model)
    return EncoderError(
        f"{key}.source: '{model.source}' is not in the cache {constants.HF_HUB_CACHE} (set by HF_HOME) "
        f"and cannot be downloaded: {reason}. With a connection, `hf download {name}"
        f"{f' --revision {revision}' if revision else ''}` downloads it"
    )


def present(model: Model, key: str) -> Path | None:
    """Return `folder` without a network: None for a model without files, or a hub model not in the cache."""
    if not model.source:
        return None
    return cached(model) if model.source.startswith("hub:") else folder(model, key)


def cached(model: Model) -> Path | None:
    """Return the folder of a hub model in the cache, if it has config and weights there."""
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None
    return path if (path / "config.json").exists() and weight_files(path) else None


def hub_name(model: Model) -> tuple[str, str | None]:
    """Return name and revision (commit, tag or branch; None: the main branch) of a hub model."""
    name, _, revision = model.source.removeprefix("hub:").partition("@")
    return name, revision or None


def weight_files(path: Path) -> list[Path]:
    """Return the files of weights in a folder: one, or an index and its shards; none unless all are there."""
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    if not (path / INDEX).is_file():
        return []
    try:
        names = {*json.loads((path / INDEX).read_text())["weight_map"].values()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # no index
        return []
    shards = [path / str(name) for name in sorted(names, key=str)]
    complete = all(shard.suffix == ".safetensors" and shard.is_file() for shard in shards)
    return [path / INDEX, *shards] if complete else []


def tensors(path: Path) -> dict[str, list[int]]:
    """Return the shape of each tensor in the weights of a folder; none where loading would fail."""
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    try:
        for file in weight_files(path):
            if file.suffix == ".safetensors":
                with safe_open(file, framework="np") as weights:
                    shapes |= {name: weights.get_slice(name).get_shape() for name in list(weights.keys())}
    except (SafetensorError, OSError):
        return {}
    return shapes


def text_files(path: Path) -> list[Path]:
    """Return other files that transformers may open: in a model's folders, or beside a GGUF file."""
    places = [path, *sorted(path.glob("*/"))] if path.is_dir() else [path.parent]
    found = {file for place in places for kind in TEXTS for file in place.glob(kind) if file.is_file()}
    return sorted(found)
