"""Which results this user began in this place, with the code that is there now.

Asking Snakemake about a study runs the code in its folder, so results of others are treated as data only.
Each start records the SHA-256 of the config that it writes, and of that code, in the user's own folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path

import platformdirs
import yaml

from headspec.config import plugin_entries
from headspec.errors import StorageError
from headspec.provenance import code_hash, files

#: what Snakemake reads in a study's folder besides its config; a repository's workflow is copied
CODE = ("Snakefile", "workflow", "profiles", ".snakemake/headspec/*/workflow")
#: folders without a study's code
DATA = ("__pycache__", "results", "node_modules")


def adopt(config: Path) -> None:
    """Record that this user began the study of a config here, if possible."""
    with contextlib.suppress(OSError, StorageError):
        body = config.read_bytes()
        with files.atomic(_note(config)) as temporary:
            both = (code_sha256(config, body, workflow) for workflow in (True, False))
            temporary.write_text("\n".join([_sha256(body), *both]) + "\n")


def is_noted(config: Path) -> bool:
    """Return whether a start was recorded here, whatever happened to the config."""
    return _note(config).is_file()


def wrote(config: Path, body: bytes) -> bool:
    """Return whether a start of this user here wrote `body` as the config."""
    return _noted(config)[:1] == [_sha256(body)]


def began(config: Path, body: bytes) -> bool:
    """Return whether a start of this user here wrote `body`, with the code that is here now."""
    own = Path(os.path.abspath(config)).parents[2] / "workflow"
    running = (
        own.resolve() == code_hash.LIBRARY.parent.resolve()
    )  # its code runs anyway, and may have been edited
    return (
        wrote(config, body)
        and code_sha256(config, body, not running) in _noted(config)[2 if running else 1 :]
    )


def code_sha256(config: Path, body: bytes, workflow: bool) -> str:
    """Return the SHA-256 of names and contents of the code that runs when Snakemake is asked about a study.

    `workflow` tells whether to include its folder of this name.
    """
    root = Path(os.path.abspath(config)).parents[2]
    lines = [
        f"{path.relative_to(root)} {files.sha256(path)}\n"
        for path in sorted(set(_code(root, body, workflow)))
    ]
    return _sha256("".join(lines).encode())


def _code(root: Path, body: bytes, workflow: bool) -> Iterator[Path]:
    """Yield the files with a study's code in the folder `root`."""
    for top in (path for name in CODE for path in root.glob(name)):
        if top.is_file():
            yield top
        elif workflow or top != root / "workflow":
            yield from _below(top)
    with contextlib.suppress(yaml.YAMLError, RecursionError, ValueError):
        if plugin_entries.named(yaml.safe_load(body)):  # plugins may import any module of the folder
            yield from (path for path in _below(root) if path.suffix == ".py")


def _below(top: Path) -> Iterator[Path]:
    """Yield the files below a folder that are neither hidden nor in a Python environment."""
    for at, folders, names in os.walk(top, followlinks=True):
        if "pyvenv.cfg" in names or len(Path(at).parts) - len(top.parts) > 20:  # or in a loop of links
            folders.clear()
            continue
        folders[:] = [name for name in folders if name[0] != "." and name not in DATA]
        yield from (path for name in names if name[0] != "." and (path := Path(at, name)).is_file())


def _noted(config: Path) -> list[str]:
    with contextlib.suppress(OSError, ValueError):
        return _note(config).read_text().split()
    return []


def _note(config: Path) -> Path:
    """Return the file with the record for the study of a config, where nobody else can write."""
    name = hashlib.sha256(os.fsencode(os.path.abspath(config.parent))).hexdigest()
    return platformdirs.user_state_path("headspec") / "starts" / name


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()
