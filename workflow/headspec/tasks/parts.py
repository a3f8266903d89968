"""Kinds of tasks by name, and their parts: definitions with fixed names, which jobs load.

The definitions are in any module of the kind's folder, in `headspec.tasks.kinds` or a plugin:

- `KIND`, in ``kind.py``: what the config may say (`headspec.tasks.kind`)
- `DATA`: how its source is read (`headspec.tasks.data`)
- `ENCODING`: from examples to tokens (`headspec.tasks.tokens`)
- `HEAD`: losses and predictions (`headspec.tasks.task_heads`)
- `METRICS` by name (`headspec.tasks.metrics`)
- `COUNTS` of tokens for planning (`headspec.tasks.registry`)
- `PROMPTS`: how language models are asked (`headspec.tasks.prompts`)
- `TASK`: the annotation of words, of kinds on words (`headspec.tasks.kinds.words.units`)

A folder may hold a family of kinds, whose own parts begin with the name of the kind, such as `TAGS_HEAD`, and
are shared by its kinds otherwise. What a kind lacks comes from its family: the one whose folder it is in, or
that `FAMILY` in the package of its own folder names, by default `texts`.
"""

import os
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import Any

from headspec.errors import ConfigError
from headspec.provenance import code_hash

#: environment variable with the folders of kinds of tasks from plugins
FOLDERS = "HEADSPEC_TASKS"
#: package of all kinds, which those of plugins join
PACKAGE = "headspec.tasks.kinds"
#: its folder, no file that jobs read (`with_name`)
KINDS = Path(__file__).parent / "kinds"
#: family of kinds that name none
TEXTS = "texts"
#: parts that jobs load, and the modules that load them
LOADED_BY = {
    "DATA": "tasks/data.py",
    "ENCODING": "tasks/tokens.py",
    "HEAD": "tasks/task_heads.py",
    "METRICS": "tasks/metrics.py",
    "PROMPTS": "tasks/prompts.py",
    "TASK": "tasks/kinds/words/units.py",
}

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
    if not (place := root(kind, name)):
        folder = plugged().get(kind, KINDS / kind)
        raise ConfigError(f"{folder}: no module defines {name}, expected one")
    return load(place)


def load(place: str) -> Any:
    """Return the part at a place."""
    return getattr(import_module(module(place)), place.rpartition(":")[2])


def module(place: str) -> str:
    """Return the name of the module of a part at a place."""
    path = Path(place.rpartition(":")[0]).with_suffix("")
    tops = {KINDS, *(folder.parent for folder in plugged().values())}
    top = next(folder for folder in tops if folder in path.parents)
    return ".".join([PACKAGE, *path.relative_to(top).parts])


@cache
def root(kind: str, name: str) -> str | None:
    """Return where a part of a kind of task is, as ``<path>:<name>``; None without the part."""
    places = ((folder, each) for folder in _folders(kind) for each in (_prefixed(kind, name), name))
    return next((place for folder, each in places if (place := _in_folder(folder, each))), None)


def part_roots(name: str) -> list[str]:
    """Return this part of all kinds of tasks; in a job, of those that it was planned with."""
    folders = [*filter(Path.is_dir, KINDS.iterdir()), *plugged().values()]
    modules = (str(path) for folder in sorted(folders) for path in sorted(folder.glob("*.py")))
    if code_hash.planned:
        modules = (
            path for path in map(code_hash.absolute, code_hash.planned) if Path(path).parent in folders
        )
    return [f"{path}:{each}" for path in modules for each in code_hash.defined(path)[0] if _is(name, each)]


def _is(name: str, value: str) -> bool:
    """Return whether a definition is this part of a kind, or of one in a family."""
    return f"_{value}".endswith(f"_{name}")


def loaded_parts(roots: Iterable[str]) -> list[str]:
    """Return the parts that code loads by name, whatever the kind of task."""
    reached = code_hash.files(roots)
    return [part for part, module in LOADED_BY.items() if str(code_hash.LIBRARY / module) in reached]


def with_parts(roots: tuple[str, ...], kinds: tuple[str, ...]) -> tuple[str, ...]:
    """Return roots of a job's code with modules of these kinds of tasks whose parts it loads by name."""
    places = (place for part in loaded_parts(roots) for kind in kinds if (place := root(kind, part)))
    more = tuple(dict.fromkeys(path for place in places if (path := place.rpartition(":")[0]) not in roots))
    return with_parts((*roots, *more), kinds) if more else roots  # parts may load parts


def _folders(kind: str) -> Iterator[Path]:
    """Yield the folders in which a kind of task may have parts, the kind's own first."""
    own = plugged().get(kind, KINDS / kind)
    if own.is_dir():
        yield own
        yield KINDS / getattr(import_module(f"{PACKAGE}.{kind}"), "FAMILY", TEXTS)
    else:
        families = (path.parent for path in sorted(KINDS.glob("*/kind.py")))
        yield from (folder for folder in families if _in_folder(folder, _prefixed(kind, "KIND")))
    yield KINDS / TEXTS


def _prefixed(kind: str, name: str) -> str:
    return f"{kind}_{name}".upper()


def _in_folder(folder: Path, name: str) -> str | None:
    """Return where modules of a folder define a name, or else import it; ConfigError if several do."""
    names = {str(path): code_hash.defined(path) for path in sorted(folder.glob("*.py"))}
    modules = [path for path, (own, _) in names.items() if name in own]
    modules = modules or [path for path, (_, imported) in names.items() if name in imported][:1]
    if len(modules) > 1:
        raise ConfigError(f"{modules[0]} and {modules[1]} have {name} both; expected one of them to")
    return f"{modules[0]}:{name}" if modules else None


def plugged() -> dict[str, Path]:
    """Return the folder of each kind of task from a plugin."""
    folders = filter(None, os.environ.get(FOLDERS, "").split(os.pathsep))
    return {Path(folder).name: Path(folder) for folder in folders}


def plug(folders: Iterable[Path]) -> None:
    """Make the kinds of tasks in these folders importable beside those of headspec; earlier ones go."""
    for kind in plugged():
        for module in [name for name in sys.modules if f"{name}.".startswith(f"{PACKAGE}.{kind}.")]:
            del sys.modules[module]
    os.environ[FOLDERS] = os.pathsep.join(str(folder.absolute()) for folder in folders)
    _find_plugged()
    root.cache_clear()


def _find_plugged() -> None:
    """Search the package of kinds in the folders beside those of plugins, too."""
    import_module(PACKAGE).__path__[1:] = dict.fromkeys(str(folder.parent) for folder in plugged().values())


if plugged():  # in a job
    _find_plugged()
