"""Versions of pretrained models, on which reruns depend.

The version of a hub model is its commit; a model that the config describes has none. Other versions are
hashes of the files that are loaded, and of no others: see `listed`.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from headspec.config.sections.model import Model
from headspec.config.sources import COMMIT, distribution
from headspec.errors import ChangedError, DataError, EncoderError, StorageError
from headspec.models.pretrained.folders import cached, files_of, folder, hub_name, located
from headspec.models.pretrained.listed import Part
from headspec.provenance import files, hashes


def version(model: Model, key: str, part: Part, results: Path | None = None) -> str:
    """Return the version of the `listed` files of a model: of its weights or its tokenizer.

    EncoderError if a hub model's commit is unknown and its tables in `results` could belong to another
    version.
    """
    if not model.source:
        return ""
    if model.source.startswith("hub:"):
        revision = commit(model.source)
        if not revision and results and any(results.rglob("*.parquet")):
            raise EncoderError(
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
    """Check that this part of a model, when it is loaded in this block, has its `planned` version.

    ChangedError if its files were replaced; files of hub models, in folders named by commits, are not.
    """
    if not model.source or model.source.startswith("hub:"):
        yield
        return
    before = folder(model, key, part)
    if version(model, key, part) != planned:
        raise replaced(model, key)
    yield
    if folder(model, key, part) != before:
        raise replaced(model, key)


def replaced(model: Model, key: str) -> ChangedError:
    """Return the error for a model of which a job finds another version than it was planned with."""
    return ChangedError(
        f"{key}.source: '{model.source}' was replaced after this job was planned. Start snakemake again, "
        "which plans with what is there now"
    )


@functools.cache
def commit(source: str) -> str:
    """Return the commit of a hub model: the one in `source`, else in the cache, else on the hub.

    Downloads do not change it. Without cache and connection, it is the one last stored here, else unknown
    ("").
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
    # without it, the commit is looked up again
    with contextlib.suppress(OSError, StorageError), files.atomic(seen) as temporary:
        temporary.write_text(f"{value}\n{files.PLACEHOLDER}\n")
        files.embed_sha256(temporary)
