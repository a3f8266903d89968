"""Which version of a pretrained model a study reads: what a rerun is decided by, beside its name.

A hub model's version is its commit. One of a package, or of a local path, is what its files hold:
those with config and weights for stages that run the model, those with config and tokenizer for
the stage that makes tokens.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from headspec.architectures import cached, folder, hub_name
from headspec.errors import EncoderError
from headspec.locate import distribution
from headspec.sections import Model
from headspec.tables import atomic

#: hashes of files that were seen before; Snakemake's folder is there wherever a study is run
SEEN = Path(".snakemake/headspec")
WEIGHTS = ("config.json", "model*.safetensors", "model.safetensors.index.json")
TOKENIZER = ("config.json", "*token*.json", "vocab*", "merges*", "*.model")
COMMIT = re.compile(r"[0-9a-f]{40}")


def weights(model: Model, key: str, made: Path | None = None) -> str:
    """Version of the model's config and weights.

    Parameters
    ----------
    made : a folder that has tables if there are results of the model, which must not be taken for those
        of another version

    Raises
    ------
    EncoderError
        There are results of a hub model whose commit is not known.
    """
    return _version(model, key, made, WEIGHTS)


def tokenizer(model: Model, key: str, made: Path | None = None) -> str:
    """Version of the model's config and tokenizer, as `weights`."""
    return _version(model, key, made, TOKENIZER)


def _version(model: Model, key: str, made: Path | None, patterns: Sequence[str]) -> str:
    if model.source.startswith("hub:"):
        found = commit(model.source)
        if not found and made and any(made.rglob("*.parquet")):
            raise EncoderError(
                f"{key}.source: which commit '{model.source}' is cannot be found out: it is not in the cache "
                "and the hub does not answer, but there are results of it, which another commit would "
                "outdate; expected a connection, the cache (HF_HOME), or a commit as the revision"
            )
        return found
    path = folder(model, key)
    files = [path]
    if path.is_dir():
        files = sorted({file for pattern in patterns for file in path.glob(pattern) if file.is_file()})
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
    known ("") of a model that is not in the cache, unless it was known in this folder before.
    """
    seen = SEEN / hashlib.sha256(source.encode()).hexdigest()
    name, revision = hub_name(Model(source=source))
    if revision and COMMIT.fullmatch(revision):
        return revision
    path = cached(Model(source=source))
    if path:
        _remember(seen, path.name)
        return path.name
    from huggingface_hub import HfApi

    try:
        found = str(HfApi().model_info(name, revision=revision, timeout=10).sha)
    except Exception:  # the library's errors have no common base
        return _read(seen)
    _remember(seen, found)
    return found


def content(path: Path) -> str:
    """SHA-256 of a file; computed once for a path, size and time of change."""
    status = path.stat()
    return _content(path.resolve(), status.st_size, status.st_mtime_ns)


@functools.cache
def _content(path: Path, size: int, changed: int) -> str:
    seen = SEEN / hashlib.sha256(f"{path} {size} {changed}".encode()).hexdigest()
    if known := _read(seen):
        return known
    with open(path, "rb") as file:
        found = hashlib.file_digest(file, "sha256").hexdigest()
    _remember(seen, found)
    return found


def _read(seen: Path) -> str:
    try:
        return seen.read_text()
    except OSError:
        return ""


def _remember(seen: Path, found: str) -> None:
    with contextlib.suppress(OSError), atomic(seen) as temporary:  # else it is found out again
        temporary.write_text(found)
