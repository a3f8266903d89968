"""The folder of a model's files: `listed` at a local path, or in the cache of the hub."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headspec.config import hub
from headspec.config.sources import locate
from headspec.errors import EncoderError
from headspec.models.pretrained import listed
from headspec.models.pretrained.listed import CONFIG, INDEX, Part, weight_files, weight_map

if TYPE_CHECKING:
    from headspec.config.sections.model import Model


def folder(model: Model, key: str, part: Part = "all", planning: bool = False) -> Path:
    """Return a folder with the `listed.files` of a model and nothing else, or a GGUF file in one.

    A hub model is downloaded if it is not cached; for `planning`, without weights. Raises EncoderError if it
    cannot be downloaded, a folder has no config.json, or as these; DataError if there is no such package,
    file or folder; OSError.
    """
    path = located(model, key, planning)
    found = files_of(path, model, key, part)
    if path.is_file():
        return listed.linked(found) / path.name
    if CONFIG not in found:
        places = [*path.glob("*.gguf"), *path.glob(f"*/{CONFIG}")]
        names = sorted(place.relative_to(path).as_posix().removesuffix(f"/{CONFIG}") for place in places)
        hint = f". Did you mean '{model.source}/{names[0]}'?" if names else ""
        raise EncoderError(f"{key}.source: '{model.source}' has no readable {CONFIG} (it has none){hint}")
    return listed.linked(found)


def files_of(path: Path, model: Model, key: str, part: Part) -> dict[str, Path]:
    """Return `listed.files` of the model that is at `path`."""
    try:
        return listed.files(path, part)
    except EncoderError as error:
        raise EncoderError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None


def located(model: Model, key: str, planning: bool = False) -> Path:
    """Return the path of a model, a folder or GGUF file, downloaded if need be; raises as `folder`."""
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    if path := cached(model):
        return path
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    patterns = [*listed.DESCRIBING]
    if not planning:
        patterns += [*listed.WEIGHING, *listed.tokenizer_names()]
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=patterns))
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
    return folder(model, key, planning=True)


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
    if not model.source or (model.source.startswith("hub:") and not cached(model)):
        return None
    return folder(model, key)


def cached(model: Model) -> Path | None:
    """Return the folder of a hub model in the cache, if it has config and weights there."""
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    try:
        path = Path(snapshot_download(name, revision=revision, local_files_only=True))
    except (errors.LocalEntryNotFoundError, errors.HFValidationError):
        return None
    return path if (path / CONFIG).exists() and weight_files(path) else None


def hub_name(model: Model) -> tuple[str, str | None]:
    """Return name and revision (commit, tag or branch; None: the main branch) of a hub model."""
    name, _, revision = model.source.removeprefix("hub:").partition("@")
    return name, revision or None


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
            raise EncoderError(f"{file.name} cannot be read ({error}); expected safetensors") from None
        named = [name for name, place in weight_map(path).items() if path / place == file]
        if lacking := [name for name in named if name not in found and len(files) > 1]:
            raise EncoderError(f"{file.name} has no {lacking[0]}, which {INDEX} says is there")
        shapes |= found
    if files and not shapes:
        raise EncoderError(f"{files[-1].name} has no tensors; expected the weights of a model")
    return shapes
