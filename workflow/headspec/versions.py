"""Which version of a pretrained model a study reads: what a rerun is decided by, beside its name.

A hub model's version is its commit. One of a package, or of a local path, is what its files hold:
those with config and weights for stages that run the model, those with config and tokenizer for
the stage that makes tokens.
"""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Callable
from pathlib import Path

from headspec.architectures import FETCHED, cached, folder, hub_name
from headspec.locate import distribution
from headspec.sections import Model
from headspec.tables import atomic

#: hashes of files that were seen before; Snakemake's folder is there wherever a study is run
SEEN = Path(".snakemake/headspec")
WEIGHTS = ("config.json", "model*.safetensors", "model.safetensors.index.json")
COMMIT = re.compile(r"[0-9a-f]{40}")


def weights(model: Model, key: str) -> str:
    """Version of the model's config and weights."""
    return _version(model, key, _is_weights)


def tokenizer(model: Model, key: str) -> str:
    """Version of the model's config and of all else that is no weights."""
    return _version(model, key, lambda path: path.name == "config.json" or not _is_weights(path))


def _is_weights(path: Path) -> bool:
    return any(path.match(pattern) for pattern in WEIGHTS)


def _version(model: Model, key: str, counts: Callable[[Path], bool]) -> str:
    if model.source.startswith("hub:"):
        return commit(model.source)
    path = folder(model, key)
    files = [path]
    if path.is_dir():
        found = {file for pattern in FETCHED for file in path.glob(pattern) if file.is_file()}
        files = sorted(file for file in found if counts(file))
    digest = hashlib.sha256()
    for file in files:
        name = file.name if path.is_dir() else ""
        digest.update(f"{name} {content(file)}\n".encode())
    own = distribution(model.source) if model.source.startswith("package:") else ""
    return f"{own}, {digest.hexdigest()[:16]}" if own else digest.hexdigest()[:16]


@functools.cache
def commit(source: str) -> str:
    """The commit of a hub model: the one named, the one in the cache, or the one on the hub.

    Asked before and after the model is fetched, it is the same one. Without a connection it is not
    known of a model that is not in the cache, which no job could then read.
    """
    name, revision = hub_name(Model(source=source))
    if revision and COMMIT.fullmatch(revision):
        return revision
    path = cached(Model(source=source))
    if path:
        return path.name
    from huggingface_hub import HfApi

    try:
        return str(HfApi().model_info(name, revision=revision, timeout=10).sha)
    except Exception:  # the library's errors have no common base
        return revision or ""


def content(path: Path) -> str:
    """SHA-256 of a file; computed once for a path, size and time of change."""
    status = path.stat()
    return _content(path.resolve(), status.st_size, status.st_mtime_ns)


@functools.cache
def _content(path: Path, size: int, changed: int) -> str:
    seen = SEEN / hashlib.sha256(f"{path} {size} {changed}".encode()).hexdigest()
    try:
        return seen.read_text()
    except OSError:
        pass
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    with atomic(seen) as temporary:
        temporary.write_text(found)
    return found
