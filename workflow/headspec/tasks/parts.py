"""Kinds of tasks by name, and their parts, which jobs load.

A kind of task is a folder in `headspec.tasks.kinds` or a plugin, and its part `HEAD` is in its module
``head.py``, and so on:

- `KIND`: what the config may say (`headspec.tasks.kind`)
- `DATA`: how its source is read (`headspec.tasks.data`)
- `ENCODING`: from examples to tokens (`headspec.tasks.tokens`)
- `HEAD`: losses and predictions (`headspec.tasks.task_heads`)
- `METRICS` by name (`headspec.tasks.metrics`)
- `COUNTS` of tokens for planning (`headspec.tasks.kinds.texts.counts`)
- `PROMPTS`: how language models are asked (`headspec.tasks.kinds.texts.prompting`)
- `TASK`: the annotation of words, of kinds on words (`headspec.tasks.kinds.words.units`)

A folder may hold a family of kinds; a part of one of them begins with its name, such as `TAGS_HEAD`. A module
that a kind lacks comes from its family: the folder that it is in, or that `FAMILY` in the package of its own
folder names, and then from `texts`.
"""

import os
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

from headspec.errors import ConfigError
from headspec.provenance import code_hash

#: environment variable with the folders of kinds of tasks from plugins
PLUGGED = "HEADSPEC_TASKS"
#: package of all kinds, which those of plugins join
PACKAGE = "headspec.tasks.kinds"
KINDS = Path(__file__).parent / "kinds"
#: family of kinds that name none
TEXTS = "texts"
#: parts that jobs load, and the modules that load them
LOADED_BY = {
    "DATA": "tasks/data.py",
    "ENCODING": "tasks/tokens.py",
    "HEAD": "tasks/task_heads.py",
    "METRICS": "tasks/metrics.py",
    "PROMPTS": "tasks/kinds/texts/prompting.py",
    "TASK": "tasks/kinds/words/units.py",
}

PARTS = ("KIND", "COUNTS", *LOADED_BY)

#: class names, empty in the data of pairs; None for regression; for other kinds `type` and more, such as
#: `labels` of words, or the keys of a translation
Classes = list[str] | dict[str, Any] | None


def type_of(classes: Classes) -> str:
    """Return the type of a task; data of pairs have classes as in classification."""
    if classes is None:
        return "regression"
    return str(classes["type"]) if isinstance(classes, dict) else "classification"


def load_part(kind: str, name: str) -> Any:
    """Return the part `name` of a kind of task; ConfigError if there is none."""
    if not (path := file_of(kind, name)):
        expected = plugged().get(kind, KINDS / kind) / f"{name.lower()}.py"
        raise ConfigError(f"{expected}: no such file, expected a file that defines {name}")
    found = vars(loaded(path))
    if (own := f"{kind}_{name}".upper()) not in found and name not in found:
        raise ConfigError(f"{path}: does not define {name}")
    return found.get(own, found.get(name))


@cache
def file_of(kind: str, name: str) -> Path | None:
    """Return the module with a part of a kind of task, its own or its family's; None without the part."""
    files = (folder / f"{name.lower()}.py" for folder in _folders(kind))
    return next(filter(Path.is_file, files), None)


def files_of(name: str) -> list[Path]:
    """Return the modules with a part of all kinds of tasks; in a job, of those it was planned with."""
    folders = [*sorted(KINDS.iterdir()), *plugged().values()]
    files = (folder / f"{name.lower()}.py" for folder in folders)
    planned = {Path(code_hash.absolute(each)) for each in code_hash.hashes_when_planned}
    return [path for path in files if path.is_file() and (path in planned or not planned)]


def loaded(path: Path) -> ModuleType:
    """Return a module with a part of a kind of task."""
    return import_module(f"{PACKAGE}.{path.parent.name}.{path.stem}")


def loaded_parts(roots: Iterable[str]) -> list[str]:
    """Return the parts that code loads by name, whatever the kind of task."""
    reached = code_hash.files(roots)
    return [part for part, module in LOADED_BY.items() if str(code_hash.LIBRARY / module) in reached]


def with_parts(roots: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return roots of a job's code with modules of these kinds of tasks whose parts it loads by name."""
    files = (file_of(kind, part) for part in loaded_parts(roots) for kind in kinds)
    more = tuple(path for path in dict.fromkeys(map(str, filter(None, files))) if path not in roots)
    return with_parts((*roots, *more), kinds) if more else roots  # parts may load parts


def _folders(kind: str) -> Iterator[Path]:
    """Yield the folders in which a kind of task may have parts, the kind's own first."""
    if own := plugged().get(kind):
        yield own
        yield KINDS / getattr(import_module(f"{PACKAGE}.{kind}"), "FAMILY", TEXTS)
    else:
        member = re.compile(rf"^{kind.upper()}_KIND = ", re.MULTILINE)
        for path in sorted(KINDS.glob("*/kind.py")):
            if path.parent.name == kind or member.search(path.read_text(encoding="utf-8")):
                yield path.parent
    yield KINDS / TEXTS


def plugged() -> dict[str, Path]:
    """Return the folder of each kind of task from a plugin."""
    folders = filter(None, os.environ.get(PLUGGED, "").split(os.pathsep))
    return {Path(folder).name: Path(folder) for folder in folders}


def plug(folders: Iterable[Path]) -> None:
    """Make the kinds of tasks in these folders importable, in place of those of earlier plugins."""
    for kind in plugged():
        for module in [name for name in sys.modules if f"{name}.".startswith(f"{PACKAGE}.{kind}.")]:
            del sys.modules[module]
    os.environ[PLUGGED] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    _find_plugged()
    file_of.cache_clear()


def _find_plugged() -> None:
    """Make imports of kinds search the folders that hold those of plugins, too."""
    import_module(PACKAGE).__path__[1:] = dict.fromkeys(str(folder.parent) for folder in plugged().values())


if plugged():  # in a job
    _find_plugged()
