"""The files of a model: at a local path, or in the cache of the hub."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
    cannot be downloaded, or a pipe is in place of a file, DataError if there is no such package, file or
    folder.
    """
    if not model.source.startswith("hub:"):
        here = locate(model.source, f"{key}.source")
        if pipe := next(_pipes(here), None):
            raise EncoderError(f"{key}.source: {pipe} is a pipe or device; expected a file")
        return here
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


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; OSError or ValueError if it is none.

    Opening a pipe would wait for ever.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is no file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _weight_map(path: Path) -> dict[str, str]:
    """Return the file of each tensor in the index of a folder; none if it is no index."""
    try:
        found = read_json(path / INDEX)["weight_map"]
        return {str(name): str(file) for name, file in found.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def weight_files(path: Path) -> list[Path]:
    """Return the files of weights in a folder: one, or an index and its shards; none unless all are there."""
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    shards = [path / name for name in sorted({*_weight_map(path).values()})]
    complete = all(shard.suffix == ".safetensors" and shard.is_file() for shard in shards)
    return [path / INDEX, *shards] if shards and complete else []


def tensors(path: Path) -> dict[str, list[int]]:
    """Return the shape of each tensor in the weights of a folder, from their headers.

    EncoderError if a file is damaged, or lacks tensors that it should have.
    """
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    files = weight_files(path)
    for file in files:
        if file.suffix != ".safetensors":
            continue
        try:
            with safe_open(file, framework="np") as weights:
                found = {name: weights.get_slice(name).get_shape() for name in list(weights.keys())}
        except (SafetensorError, OSError, ValueError) as error:
            raise EncoderError(f"{file} cannot be read ({error}); expected safetensors") from None
        named = [name for name, place in _weight_map(path).items() if place == file.name and len(files) > 1]
        if lacking := [name for name in named if name not in found]:
            raise EncoderError(f"{file} has no {lacking[0]}, which {INDEX} says is there")
        shapes |= found
    if files and not shapes:
        raise EncoderError(f"{files[-1]} has no tensors; expected the weights of a model")
    return shapes


def _texts(path: Path) -> set[Path]:
    places = [path, *sorted(path.glob("*/"))] if path.is_dir() else [path.parent]
    return {file for place in places for kind in TEXTS for file in place.glob(kind)}


def text_files(path: Path) -> list[Path]:
    """Return other files that transformers may open: in a model's folders, or beside a GGUF file."""
    return sorted(file for file in _texts(path) if file.is_file())


def _pipes(path: Path) -> Iterator[Path]:
    """Yield what transformers would open in a model's folder, and wait for ever: pipes, and devices."""
    for file in sorted({*_texts(path), *path.glob("*.safetensors")}):
        if file.exists() and not (file.is_file() or file.is_dir()):
            yield file
