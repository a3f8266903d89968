"""Plugins: users' modules with functions declared by these decorators (`headspec.config.plugin_entries`)."""

import importlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from headspec.errors import ConfigError, nearest
from headspec.provenance import code_hash
from headspec.provenance.code_hash import LIBRARY, import_root

F = TypeVar("F", bound=Callable[..., Any])

#: environment variable with the plugins that register types of models, which jobs import
REGISTERING = "HEADSPEC_MODEL_TYPES"
#: attribute of functions that holds their declaration
DECLARED = "__headspec__"
HEADS, SIMILARITY, PRUNING_METHOD = "measure of heads", "measure of similarity", "pruning method"
TEXT_SCORE = "score of texts"


@dataclass(frozen=True)
class Declaration:
    """A function declared by a plugin: its kind, name, label in figures, what it reads (`of`), and place."""

    declares: str
    name: str
    label: str
    of: str | None
    file: str
    line: int


def head_measure(name: str, label: str, *, of: str | None = None) -> Callable[[F], F]:
    """Declare a measure of heads for `atlas.rankings` and, if ranked there, `gates.pruning_methods`.

    The function takes a `MultiTask`, the name of a task, its `Examples`, rows (n,) of these, and a `Device`.
    It returns float (n, layers, heads), larger for heads that matter more.

    Parameters
    ----------
    of : {"attention", "relevance", "ablation"}, a table of measures that the function takes instead; it then
        returns a table of the schema `headspec.atlas.sample.HEAD_FOLDS`
    """
    return _declare(HEADS, name, label, of)


def similarity_measure(name: str, label: str, *, of: str) -> Callable[[F], F]:
    """Declare a measure of similarity for `similarity.measures`.

    The function takes the `Traits` of two tasks, in any order, and reads the trait `of`, one of `TRAITS` in
    `headspec.config.measures.similarity`; `headspec.similarity.traits` has their shapes. It returns a number
    of at most 1, which is 1 for equal traits.
    """
    return _declare(SIMILARITY, name, label, of)


def pruning_method(name: str, label: str) -> Callable[[F], F]:
    """Declare a pruning method, which chooses the heads to keep, for `gates.pruning_methods`.

    The function takes importance (layers, heads) for one or several tasks (`joint_importance`), of only the
    layers whose heads can close, with nan where there is no head; the number of their heads to keep; and a
    random generator. It returns bool (layers, heads), True for exactly that number of heads.
    """
    return _declare(PRUNING_METHOD, name, label)


def text_score(name: str) -> Callable[[F], F]:
    """Declare a score of written texts, for `tasks.<name>.score` of tasks of generation.

    The function takes a text that a model wrote, or what `pattern` finds in it, and the reference answer. It
    returns a number, larger for better texts, whose mean is the metric `generated_score`. It is tried on an
    empty text and some of the reference answers before any model writes.
    """
    return _declare(TEXT_SCORE, name, name)


def _declare(declares: str, name: str, label: str, of: str | None = None) -> Callable[[F], F]:
    def note(function: F) -> F:
        code = function.__code__
        declaration = Declaration(declares, name, label, of, code.co_filename, code.co_firstlineno)
        setattr(function, DECLARED, declaration)
        return function

    return note


def declared(module: ModuleType) -> list[tuple[str, Declaration]]:
    """Return the names of declared functions in a module, and their declarations."""
    declarations = {
        declaration: name
        for name, value in vars(module).items()
        if isinstance(declaration := getattr(value, DECLARED, None), Declaration)
    }
    return [(name, declaration) for declaration, name in declarations.items()]


def is_path(where: str) -> bool:
    """Return whether a plugin is given by its file instead of its import name."""
    return where.endswith(".py")


def is_folder(where: str) -> bool:
    """Return whether a plugin is the folder of a kind of task."""
    return (Path(where).expanduser() / "kind.py").is_file()


def imported(where: str) -> ModuleType:
    """Import a plugin by its import name or path, with modules next to it or in the working folder.

    Raises ConfigError if it does not exist, is not a file, fails to import, has the name of another module,
    or a folder of its package has no ``__init__.py``.
    """
    path = Path(where).expanduser().absolute()
    root, name = (import_root(path), _dotted(path)) if is_path(where) else (Path.cwd(), where)
    if str(root) not in sys.path:
        sys.path.append(str(root))
    module = attempted(where, name)
    if not (origin := getattr(module, "__file__", None)):  # built in, or a folder
        raise ConfigError(
            f"{where}: '{name}' is not a file; expected a module, or a package with __init__.py"
        )
    file = Path(origin).absolute()
    if is_path(where) and not path.samefile(file):
        raise ConfigError(f"{where}: '{name}' is the module {file}; use a different name")
    if _dotted(file) != name:
        raise ConfigError(f"{where}: {file.parent} has no __init__.py, which each folder of a package needs")
    return module


def registers_types(module: ModuleType) -> bool:
    """Return whether a plugin, or a module it imports, has registered model types in transformers."""
    auto = sys.modules.get("transformers.models.auto.configuration_auto")
    registered = list(getattr(auto.CONFIG_MAPPING, "_extra_content", {}).values()) if auto else []
    code = code_hash.files([str(module.__file__)]) if registered else set()
    own = any(getattr(sys.modules.get(each.__module__), "__file__", None) in code for each in registered)
    return own or any(each in vars(module).values() for each in registered)


def register_types() -> None:
    """Import the plugins, named in `REGISTERING`, that register types of models."""
    for where in _registering():
        imported(where)


def registering() -> list[str]:
    """Return the files of the plugins in `REGISTERING`: roots of the code of jobs that reach this module."""
    return [os.path.abspath(str(imported(where).__file__)) for where in _registering()]


def _registering() -> list[str]:
    return list(filter(None, os.environ.get(REGISTERING, "").split(os.pathsep)))


def attempted(where: str, name: str) -> ModuleType:
    """Import a module by its `name`. Raises ConfigError, naming the plugin `where`, if that fails."""
    try:
        return import_module(name)
    except (Exception, SystemExit) as error:
        raise ConfigError(f"{where}: {_told(error, name)}") from error


def _dotted(path: Path) -> str:
    """Return the import name of a file."""
    *package, _ = path.relative_to(import_root(path)).parts
    module = inspect.getmodulename(path) or path.name
    return ".".join(package if module == "__init__" else [*package, module])


def roots(references: Iterable[str | None]) -> list[str]:
    """Return the file of each reference, as `function` takes them, once: roots for `code_hash.by_root`."""
    return [*dict.fromkeys(_file(each.rpartition(":")[0]) for each in references if each)]


def _file(where: str) -> str:
    """Return the file of a module of headspec, which is not imported, or of a plugin, which is."""
    if where.startswith(f"{LIBRARY.name}."):
        return str(LIBRARY.parent.joinpath(*where.split(".")).with_suffix(".py"))
    return os.path.abspath(str(imported(where).__file__))


def function(reference: str) -> Callable[..., Any]:
    """Return a function of headspec or of a plugin by ``<import name or path of its module>:<its name>``."""
    where, _, name = reference.rpartition(":")
    function: Callable[..., Any] = getattr(imported(where), name)
    return function


def check(returned: Any, shape: tuple[int, ...], reference: str) -> None:
    """Raise ConfigError unless the function `reference` returned an array of this shape."""
    size = getattr(returned, "shape", None)
    if size != shape:
        got = f"a {type(returned).__name__}" if size is None else f"shape {tuple(size)}"
        raise ConfigError(f"{reference}: returned {got}, expected an array of shape {shape}")


def _told(error: BaseException, name: str) -> str:
    """Return why importing a module failed, with the file and line where known."""
    if isinstance(error, ModuleNotFoundError) and f"{name}.".startswith(f"{error.name}."):
        here = nearest(error.name, (path.stem for path in Path.cwd().glob("*.py")))
        return (
            f"no module '{error.name}' is installed, or in the working folder; expected an import name, or "
            f"the path of a file *.py or of a folder with kind.py.{here}"
        )
    if isinstance(error, SyntaxError):
        return f"{error.filename}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    machinery = ("<frozen importlib", importlib.__file__, __file__)
    frames = traceback.extract_tb(error.__traceback__)
    calls = [(Path(f.filename), f.lineno) for f in frames if not f.filename.startswith(machinery)]
    own = [call for call in calls if import_root(call[0]) == import_root(calls[0][0])]
    at = "{}, line {}: ".format(*own[-1]) if own else ""
    return f"{at}{type(error).__name__}: {' '.join(str(error).split())}"
