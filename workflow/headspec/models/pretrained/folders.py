"""The folder of a model's files, at a local path or in the hub's cache, and the model's version.

The version of a hub model is its commit; a model that the config describes has none. Other versions are
hashes of exactly the files that are loaded: see `model_files`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headspec.config.sections.model import Model
from headspec.config.sources import COMMIT, distribution, locate
from headspec.errors import ChangedError, DataError, ModelError, StorageError
from headspec.models.pretrained import model_files
from headspec.models.pretrained.model_files import CONFIG, INDEX, Part, weight_files, weight_map
from headspec.provenance import files, hashes


def folder(model: Model, key: str, part: Part = "all", planning: bool = False) -> Path:
    """Return a folder with the `model_files.files` of a model and nothing else, or a GGUF file in one.

    A hub model is downloaded if it is not cached; for `planning`, only its configs. Raises ModelError if it
    cannot be downloaded, a folder has no config.json, or `model_files.files` raises it; DataError if there is
    no such package, file or folder; OSError if the links cannot be made.
    """
    path = located(model, key, planning)
    held = files_of(path, model, key, part)
    if path.is_file():
        return model_files.linked(held) / path.name
    if CONFIG not in held:
        places = [*path.glob("*.gguf"), *path.glob(f"*/{CONFIG}")]
        names = sorted(place.relative_to(path).as_posix().removesuffix(f"/{CONFIG}") for place in places)
        hint = f". Did you mean '{model.source}/{names[0]}'?" if names else ""
        raise ModelError(f"{key}.source: '{model.source}' has no readable {CONFIG} (it has none){hint}")
    return model_files.linked(held)


def files_of(path: Path, model: Model, key: str, part: Part) -> dict[str, Path]:
    """Return `model_files.files` of the model at `path`; errors name the config key."""
    try:
        return model_files.files(path, part)
    except ModelError as error:
        raise ModelError(f"{key}.source: '{model.source}' cannot be loaded: {error}") from None


def located(model: Model, key: str, planning: bool = False) -> Path:
    """Return the path of a model, a folder or GGUF file, downloading it if needed; raises as `folder`."""
    if not model.source.startswith("hub:"):
        return locate(model.source, f"{key}.source")
    if path := cached(model):
        return path
    from huggingface_hub import errors, snapshot_download

    name, revision = hub_name(model)
    patterns = [*model_files.DESCRIBING]
    if not planning:
        patterns += [*model_files.WEIGHING, *model_files.tokenizer_names()]
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


def folder_for_planning(model: Model, key: str) -> Path:
    """Return `folder` for planning: a hub model may have only its configs, and the hub is asked once."""
    if model.source.startswith("hub:") and not cached(model) and (reason := hub_unreachable()):
        raise _unavailable(model, key, f"no connection to the hub ({reason})")
    return folder(model, key, planning=True)


def _unavailable(model: Model, key: str, reason: str) -> ModelError:
    """Return the error for a hub model that is not in the cache and cannot be downloaded."""
    from huggingface_hub import constants

    name, revision = hub_name(model)
    return ModelError(
        f"{key}.source: '{model.source}' is not in the cache {constants.HF_HUB_CACHE} (set by HF_HOME) "
        f"and cannot be downloaded: {reason}. With a connection, `hf download {name}"
        f"{f' --revision {revision}' if revision else ''}` downloads it"
    )


def present(model: Model, key: str) -> Path | None:
    """Return `folder` without using the network; None for a model without files, or an uncached hub model."""
    if not model.source or (model.source.startswith("hub:") and not cached(model)):
        return None
    return folder(model, key)


def cached(model: Model) -> Path | None:
    """Return the folder of a hub model in the cache, if it has its config and weights there."""
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
    """Return the shape of each tensor in the weight files of a folder, from their headers.

    Raises ModelError if a file is damaged, or lacks tensors that it should have.
    """
    from safetensors import SafetensorError, safe_open

    shapes: dict[str, list[int]] = {}
    files = weight_files(path)
    for file in files:
        if file.suffix != ".safetensors":
            continue
        try:
            with safe_open(file, framework="np") as weights:
                by_name = {name: weights.get_slice(name).get_shape() for name in list(weights.keys())}
        except (SafetensorError, OSError, ValueError) as error:
            raise ModelError(f"{file.name} cannot be read ({error}); expected safetensors") from None
        named = [name for name, place in weight_map(path).items() if path / place == file]
        if lacking := [name for name in named if name not in by_name and len(files) > 1]:
            raise ModelError(f"{file.name} has no {lacking[0]}, which {INDEX} lists")
        shapes |= by_name
    if files and not shapes:
        raise ModelError(f"{files[-1].name} has no tensors; expected the weights of a model")
    return shapes


def version(model: Model, key: str, part: Part, results: Path | None = None) -> str:
    """Return the version of the `model_files.files` of a part of a model; empty for one without files.

    A model in a package also has the package's version. A hub model whose commit is unknown has "".

    Raises ModelError if a hub model's commit is unknown and its tables in `results` could belong to another
    version.
    """
    if not model.source:
        return ""
    if model.source.startswith("hub:"):
        revision = hub_commit(model.source)
        if not revision and results and any(results.rglob("*.parquet")):
            raise ModelError(
                f"{key}.source: the commit of '{model.source}' is unknown, because it is not in the cache "
                "and the hub does not answer. There are results, which another commit would outdate; "
                "expected a connection, the cache (HF_HOME), or a commit as the revision"
            )
        return revision
    path, digest = located(model, key), hashlib.sha256()
    for name, file in sorted(files_of(path, model, key, part).items()):
        digest.update(f"{name if file != path else ''} {hashes.sha256(file)}\n".encode())
    package = distribution(model.source) if model.source.startswith("package:") else ""
    return f"{package}, {digest.hexdigest()[:16]}" if package else digest.hexdigest()[:16]


@contextmanager
def as_planned(planned: str, model: Model, key: str, part: Part) -> Iterator[None]:
    """Check that this part of a model, loaded inside the block, has its `planned` version.

    Raises ChangedError if its files were replaced. Those of hub models, in folders named by commits, never
    are.
    """
    if not model.source or model.source.startswith("hub:"):
        yield
        return
    before = folder(model, key, part)
    if version(model, key, part) != planned:
        raise replaced_error(model, key)
    yield
    if folder(model, key, part) != before:
        raise replaced_error(model, key)


def replaced_error(model: Model, key: str) -> ChangedError:
    """Return the error for a job that finds another version of a model than was planned."""
    return ChangedError(
        f"{key}.source: '{model.source}' was replaced after this job was planned. Start snakemake again, "
        "which plans with what is there now"
    )


@functools.cache
def hub_commit(source: str) -> str:
    """Return the commit of a hub model: the one in `source`, else in the cache, else on the hub.

    Downloads do not change it. Without cache and connection, it is the last commit seen here, else "".
    """
    seen = hashes.FOLDER / hashlib.sha256(source.encode()).hexdigest()
    model = Model.from_params({"source": source})
    name, revision = hub_name(model)
    if revision and COMMIT.fullmatch(revision):
        return revision
    path = cached(model)
    if path:
        _remember(seen, path.name)
        return path.name
    from huggingface_hub import HfApi

    try:
        latest = str(HfApi().model_info(name, revision=revision, timeout=10).sha)
    except Exception:  # the errors of huggingface_hub have no common base class
        return _read(seen)
    _remember(seen, latest)
    return latest


def _read(seen: Path) -> str:
    try:
        files.verify(seen)
        return seen.read_text().split()[0]
    except (DataError, OSError):
        return ""


def _remember(seen: Path, value: str) -> None:
    # if it cannot be stored, the commit is looked up again
    with contextlib.suppress(OSError, StorageError), files.atomic(seen) as temporary:
        temporary.write_text(f"{value}\n{files.PLACEHOLDER}\n")
        files.embed_sha256(temporary)


ANSWER = 5  # seconds to wait for the hub


def hub_unreachable() -> str:
    """Return why the hub cannot be reached, tried once; empty if it can."""
    from huggingface_hub import constants

    return "HF_HUB_OFFLINE is set" if constants.HF_HUB_OFFLINE else _asked(constants.ENDPOINT)


@functools.cache
def _asked(endpoint: str) -> str:
    from huggingface_hub.utils import get_session

    try:
        get_session().head(endpoint, timeout=ANSWER)
    except Exception as error:  # the HTTP library, and thus its errors, differs between versions
        return str(error).split("\n")[0]
    return ""


@contextmanager
def asked_once(source: str | None) -> Iterator[None]:
    """For a hub `source`, let libraries read only caches if the hub is unreachable.

    Otherwise they would retry for a minute.
    """
    if not str(source).startswith("hub:") or not hub_unreachable():
        yield
        return
    import datasets
    from huggingface_hub import constants

    modules = constants, datasets.config
    before = [module.HF_HUB_OFFLINE for module in modules]
    try:
        for module in modules:
            module.HF_HUB_OFFLINE = True
        yield
    finally:
        for module, value in zip(modules, before, strict=True):
            module.HF_HUB_OFFLINE = value
