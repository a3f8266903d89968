"""Where the files of a model are: a local path, or the cache of the hub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from headspec.config.sources import locate
from headspec.errors import EncoderError

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

FETCHED = ["*.json", "*.txt", "*.model", "*.spm", "model*.safetensors"]


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


def present(model: Model, key: str) -> Path | None:
    """The same without a network: None for a hub model that is not in the cache, or one without files."""
    if not model.source:
        return None
    return cached(model) if model.source.startswith("hub:") else folder(model, key)


def cached(model: Model) -> Path | None:
    """The folder of a hub model in the cache, if it has config and weights; uses no network."""
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None
    return path if (path / "config.json").exists() and has_weights(path) else None


def hub_name(model: Model) -> tuple[str, str | None]:
    """Name and revision (commit, tag or branch; None: the main branch) of a hub model."""
    name, _, revision = model.source.removeprefix("hub:").partition("@")
    return name, revision or None


def has_weights(path: Path) -> bool:
    """Whether all safetensors files are there, one or several."""
    if (path / "model.safetensors").exists():
        return True
    try:
        index = json.loads((path / "model.safetensors.index.json").read_text())
        names = set(index["weight_map"].values())
        return all(name.endswith(".safetensors") and (path / name).exists() for name in names)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):  # none, or no index
        return False
