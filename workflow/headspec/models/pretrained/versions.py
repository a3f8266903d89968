"""Versions of pretrained models, on which reruns depend.

The version of a hub model is its commit; a model that the config describes has none. Other versions are
hashes of the files that are loaded: weights and JSON other than tokenizers' for stages that run the model,
everything except weights for tokenization.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from headspec.config.sections.model import Model
from headspec.config.sources import COMMIT, distribution
from headspec.errors import ChangedError, DataError, EncoderError, StorageError
from headspec.models.pretrained.folders import cached, folder, hub_name, text_files, weight_files
from headspec.provenance import files, hashes

if TYPE_CHECKING:
    from headspec.config.sections.model import Model

#: JSON that only tokenizers read
TOKENIZER = re.compile(r".*token.*|(.*_)?vocab.*|merges.*|chat_template.*")


def weights(model: Model, key: str, results: Path | None = None) -> str:
    """Return the version of the model's config and weights.

    EncoderError if a hub model's commit is unknown and its tables in `results` could belong to another
    version.
    """
    return _version(model, key, results, _weight_files)


def tokenizer(model: Model, key: str, results: Path | None = None) -> str:
    """Return the version of the model's config and tokenizer; parameters and errors as in `weights`."""
    return _version(model, key, results, _tokenizer_files)


def _version(model: Model, key: str, results: Path | None, opened: Callable[[Path], list[Path]]) -> str:
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
    path = folder(model, key)
    digest = hashlib.sha256()
    for file in opened(path):
        name = os.path.relpath(file, path) if path.is_dir() or file != path else ""
        digest.update(f"{name} {hashes.sha256(file)}\n".encode())
    package = distribution(model.source) if model.source.startswith("package:") else ""
    return f"{package}, {digest.hexdigest()[:16]}" if package else digest.hexdigest()[:16]


@contextmanager
def as_planned(version: Callable[[Model, str], str], planned: str, model: Model, key: str) -> Iterator[None]:
    """Check that a model loaded in this block has its `planned` version (`weights` or `tokenizer`).

    ChangedError if its files were replaced; files of hub models, in folders named by commits, are not.
    """
    if not model.source or model.source.startswith("hub:"):
        yield
        return
    replaced = ChangedError(
        f"{key}.source: '{model.source}' was replaced after this job was planned. Start snakemake again, "
        "which plans with what is there now"
    )
    before = _stat_keys(model, key)
    if version(model, key) != planned:
        raise replaced
    yield
    if _stat_keys(model, key) != before:
        raise replaced


def _stat_keys(model: Model, key: str) -> list[hashes.StatKey]:
    path = folder(model, key)
    return [hashes.stat_key(file) for file in (*_weight_files(path), *_tokenizer_files(path))]


def _weight_files(path: Path) -> list[Path]:
    """Return the files opened to run a model at `path`, a folder or a GGUF file."""
    read = [
        file for file in text_files(path) if file.suffix == ".json" and not TOKENIZER.fullmatch(file.name)
    ]
    return sorted({*read, *(weight_files(path) if path.is_dir() else [path])})


def _tokenizer_files(path: Path) -> list[Path]:
    """Return the files opened to load its tokenizer."""
    return sorted({*text_files(path), *([path] if path.is_file() else [])})


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
