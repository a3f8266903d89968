"""The files that a model is loaded from, and a folder with links to exactly these files.

The model's version covers these files; since loaders see only the links, they cannot open any other file.
"""

from __future__ import annotations

import functools
import hashlib
import json
import os
import shutil
import sys
import tempfile
import uuid
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, TypeVar

from headspec import plugins
from headspec.errors import ModelError, shown
from headspec.provenance import hashes

Content = TypeVar("Content", dict[str, Any], list[Any])
#: files for the weights, for the tokenizer, or both; each includes config.json
Part = Literal["weights", "tokenizer", "all"]
CONFIG, WEIGHTS, INDEX = "config.json", "model.safetensors", "model.safetensors.index.json"
#: modules of sentence-transformers, and the file that names the class token of models without these
MODULES, TOKENIZER = "modules.json", "tokenizer_config.json"
#: settings of generation, and of an adapter, which is refused
BESIDE = ("generation_config.json", "adapter_config.json")
#: patterns for the files of a model on the hub
DESCRIBING, WEIGHING = ("*config.json", MODULES), (*BESIDE, INDEX, "model*.safetensors")
#: files that tokenizers of transformers read: settings, and vocabularies, as their classes name them
SETTINGS = (
    TOKENIZER, "special_tokens_map.json", "added_tokens.json", "chat_template.jinja",
    "additional_chat_templates/*.jinja",
)  # fmt: skip
VOCABULARIES = (
    "tokenizer.json", "*.model", "tekken.json", "vocab.txt", "vocab.json", "merges.txt", "bpe.codes",
    "dict.txt", "source.spm", "target.spm", "target_vocab.json", "vocab-src.json", "vocab-tgt.json",
    "prophetnet.tokenizer", "entity_vocab.json", "word_shape.json", "word_pronunciation.json",
    "byte_maps.json", "normalizer.json", "emoji.json",
)  # fmt: skip


def tokenizer_names() -> list[str]:
    """Return patterns for tokenizer files, including those that plugins of the study register."""
    plugins.register_types()
    auto = sys.modules.get("transformers.models.auto.tokenization_auto")  # imported by such plugins
    names = {*SETTINGS, *VOCABULARIES}
    for registered in getattr(auto, "REGISTERED_TOKENIZER_CLASSES", {}).values():
        names |= set(registered.vocab_files_names.values())
    return sorted(names)


def files(path: Path, part: Part = "all") -> dict[str, Path]:
    """Return the files of a model at `path`, a folder or GGUF file, by their names in the folder.

    Raises ModelError if an index names a file outside the folder, or a file is a pipe.
    """
    folder = path if path.is_dir() else path.parent
    wanted = [folder / CONFIG] if path.is_dir() else [path]
    if part != "tokenizer":
        wanted += [folder / name for name in BESIDE]
        wanted += [*_pooling_files(path), path / WEIGHTS, *weight_files(path)] if path.is_dir() else []
    if part != "weights":
        wanted += [file for name in tokenizer_names() for file in sorted(folder.glob(name))]
    present = {os.path.relpath(file, folder): file for file in wanted if file.exists() and not file.is_dir()}
    for name, file in present.items():
        if _is_outside(name):
            raise ModelError(f"it names {name}, which is outside its folder; expected files in it")
        if not file.is_file():  # opening it would block forever
            raise ModelError(f"{name} is a pipe or device; expected a file")
    return present


def has_vocabulary(path: Path) -> bool:
    """Return whether a model at `path` has a vocabulary file; every GGUF file includes one."""
    names = {*tokenizer_names()} - {*SETTINGS}
    return path.is_file() or any(next(path.glob(name), None) for name in names)


@functools.cache
def _temporary() -> tempfile.TemporaryDirectory[str]:
    return tempfile.TemporaryDirectory(prefix="headspec-")


def linked(files: Mapping[str, Path]) -> Path:
    """Return a folder with links to `files` by their names, and nothing else; may raise OSError.

    Other files, or these after a change, get another folder. It is inside Snakemake's folder if there is one,
    else lasts as long as this process.
    """
    targets = {name: os.path.abspath(file) for name, file in sorted(files.items())}
    states = [(*entry, hashes.stat_key(entry[1])) for entry in targets.items()]
    digest = hashlib.sha256(json.dumps(states).encode()).hexdigest()
    study = hashes.FOLDER if hashes.FOLDER.parent.is_dir() else Path(_temporary().name)
    folder = study / "models" / digest[:16]
    paths = (path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())
    if {str(path.relative_to(folder)): path.is_symlink() and os.readlink(path) for path in paths} == targets:
        return folder
    new = folder.with_name(f".{uuid.uuid4().hex}")
    _link(new, targets)
    shutil.rmtree(folder, ignore_errors=True)
    try:
        new.rename(folder)
    except OSError:  # another process has made it in the meantime
        shutil.rmtree(new)
    return folder


@contextmanager
def alone(folder: Path, names: Iterable[str]) -> Iterator[Path]:
    """Make a folder for this block with links to the files `names` in `folder`, and nothing else."""
    with tempfile.TemporaryDirectory(prefix="headspec-") as temporary:
        _link(Path(temporary), {name: os.path.abspath(folder / name) for name in names})
        yield Path(temporary)


def _link(folder: Path, targets: Mapping[str, str]) -> None:
    for name, target in targets.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).symlink_to(target)


def read_json(path: Path) -> Any:
    """Return the content of a JSON file; OSError or ValueError if it cannot be read.

    Pipes are refused, because opening one would block forever.
    """
    if path.exists() and not path.is_file():
        raise OSError("it is not a file")
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except RecursionError:
        raise ValueError("nested too deeply") from None


def read(path: Path, name: str, kind: type[Content]) -> Content:
    """Return the content of a JSON file in a model's folder; ModelError unless it is of this `kind`."""
    try:
        content = read_json(path / name)
    except (OSError, ValueError) as error:
        raise ModelError(f"{name} cannot be read ({getattr(error, 'strerror', None) or error})") from None
    if not isinstance(content, kind):
        raise ModelError(f"{name} has {shown(content)}, expected a {'list' if kind is list else 'mapping'}")
    return content


def pooling_file(path: Path) -> str | None:
    """Return the pooling file in a model's folder that modules.json names; None if it names none.

    Raises ModelError if modules.json cannot be read as a list, or the file is outside the folder.
    """
    for module in read(path, MODULES, list) if path.is_dir() and (path / MODULES).exists() else []:
        kind, name = (module.get(key) for key in ("type", "path")) if isinstance(module, dict) else ("", "")
        if str(kind).rpartition(".")[2] == "Pooling" and isinstance(name, str):
            if _is_outside(file := os.path.normpath(os.path.join(name, CONFIG))):
                raise ModelError(f"{MODULES} refers to {name}, which is outside the folder")
            return file
    return None


def _pooling_files(path: Path) -> list[Path]:
    """Return the files that determine the pooling; none if unreadable, which `chosen_pooling` reports."""
    try:
        named = pooling_file(path)
    except ModelError:
        named = None
    return [path / MODULES, path / (named or TOKENIZER)]


def _is_outside(name: str) -> bool:
    return os.path.isabs(name) or os.path.normpath(name).partition("/")[0] == ".."


def weight_map(path: Path) -> dict[str, str]:
    """Return the file of each tensor in the index of a folder; empty if there is no valid index."""
    try:
        by_weight = read_json(path / INDEX)["weight_map"]
        return {str(name): str(file) for name, file in by_weight.items()}
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def weight_files(path: Path) -> list[Path]:
    """Return the weight files in a folder: one, or an index and its shards; empty if any are missing."""
    if (path / WEIGHTS).is_file():
        return [path / WEIGHTS]
    shards = [path / name for name in sorted({*weight_map(path).values()})]
    complete = all(shard.suffix == ".safetensors" and shard.is_file() for shard in shards)
    return [path / INDEX, *shards] if shards and complete else []
