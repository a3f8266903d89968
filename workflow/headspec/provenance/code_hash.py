"""Hashes of the definitions that a job reaches; Snakemake reruns the job when they change.

A job reaches what its roots need, even indirectly, in headspec and in plugins. Roots are its script, and the
modules and functions that it finds by name. Hashes do not depend on the files that definitions are in.
"""

import contextlib
import hashlib
import itertools
import json
import os
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from headspec.provenance import definitions, hashes
from headspec.provenance.definitions import EFFECTS, WHOLE, Definition, Module, Use, import_root
from headspec.provenance.hashes import FileCache, StatKey, stat_key

LIBRARY = Path(__file__).parents[1]
#: uses away up to which the hash of a definition includes others, so that equal texts of other meaning differ
DEPTH = 3
NOTHING = Definition("")
INSTALLED = tuple(os.path.realpath(path) + os.sep for path in {*sysconfig.get_paths().values()})


#: in a job, the hashes by root with which it was planned; empty elsewhere
planned: dict[str, str] = {}


def make_importable() -> None:
    """Let the scripts of rules, which run as separate processes, import this library."""
    paths = [str(LIBRARY.parent), os.environ.get("PYTHONPATH", "")]
    os.environ["PYTHONPATH"] = os.pathsep.join(filter(None, paths))


def by_root(roots: Iterable[str | Path]) -> dict[str, str]:
    """Return the hash of all definitions that each root reaches; keys are relative to the library's folder.

    A root is a file, all of whose definitions count, or one definition in it, as ``<path>:<name>``.
    """
    graph = current()
    paths = (str(LIBRARY.parent / root) for root in roots)
    hashes = {os.path.relpath(path, LIBRARY.parent): graph.hash(node_of(path)) for path in paths}
    MODULES.save()
    return dict(sorted(hashes.items()))


def files(roots: Iterable[str | Path]) -> set[str]:
    """Return the files with code that roots reach."""
    graph = current()
    return {node.path for root in roots for node in graph.reached(node_of(root))}


def reach(roots: Iterable[str | Path], definition: str) -> bool:
    """Return whether roots reach a definition, itself given as a root."""
    graph = current()
    return any(node_of(definition) in graph.reached(node_of(root)) for root in roots)


def modules_with(folder: Path, name: str) -> list[str]:
    """Return the modules of a folder that define a name; if none does, those that import it."""
    graph = current()
    paths = sorted(map(str, folder.glob("*.py")))
    own = [path for path in paths if name in graph.module(path).definitions]
    return own or [path for path in paths if name in graph.names(path)][:1]


def defined(path: str) -> list[str]:
    """Return the names that a module defines."""
    return [*current().module(path).definitions]


def parts(roots: Iterable[str | Path]) -> list[str]:
    """Return the parts of kinds of tasks that code which roots reach loads by name."""
    graph = current()
    reached = {node for root in roots for node in graph.reached(node_of(root))}
    return sorted({part for node in reached for part in graph.definition(node).parts})


class Node(NamedTuple):
    """A definition, by its file and its name there."""

    path: str
    name: str


def node_of(root: str | Path) -> Node:
    """Return the node of a root, whose path may be relative to the library's folder."""
    path, _, name = str(root).partition(":")
    return Node(os.path.normpath(LIBRARY.parent / path), name or WHOLE)


class Graph:
    """What the definitions of files reach, as the files are now."""

    def __init__(self) -> None:
        self.seen: dict[str, StatKey] = {}
        self.module, self.reached, self.needed = (
            cache(self._module),
            cache(self._reached),
            cache(self._needed),
        )
        self._signature, self._file = cache(self._sign), cache(_file)

    def is_current(self) -> bool:
        """Return whether no file has changed since it was read."""
        with contextlib.suppress(OSError):
            return all(stat_key(path) == key for path, key in self.seen.items())
        return False

    def locate(self, name: str, importer: str) -> str | None:
        """Return the file of a module that a file imports; None if there is none, or it is installed."""
        if name.partition(".")[0] == LIBRARY.name:
            return self._file(name, str(LIBRARY.parent))
        own = importer.startswith(f"{LIBRARY.parent}{os.sep}")
        return None if own else self._file(name, os.path.dirname(importer))

    def definition(self, node: Node) -> Definition:
        """Return the definition of a name in a file, or `NOTHING`."""
        return self.module(node.path).definitions.get(node.name, NOTHING)

    def names(self, path: str) -> set[str]:
        """Return the names that a module defines or imports, by `*` too."""
        module = self.module(path)
        starred = (self.locate(name, path) for each, (name, _) in module.imports.items() if each[0] == "*")
        return {*module.definitions, *module.imports}.union(*(self.names(each) for each in starred if each))

    def hash(self, root: Node) -> str:
        """Return the hash of all definitions that a node reaches, whatever files they are in."""
        nodes = (node for node in self.reached(root) if self.definition(node).text)
        return _sha256(sorted(self._signature(node, DEPTH) for node in nodes))

    def _module(self, path: str) -> Module:
        self.seen[path] = stat_key(path)
        return definitions.restored(MODULES.get(path, lambda path: asdict(definitions.read(Path(path)))))

    def _reached(self, root: Node) -> frozenset[Node]:
        reached, queue = set[Node](), [root]
        while queue:
            node = queue.pop()
            if node not in reached:
                reached.add(node)
                queue += (target for _, target in self.needed(node))
        return frozenset(reached)

    def _needed(self, node: Node) -> list[tuple[str, Node]]:
        """Return the nodes that a node needs, each with the name by which it is used."""
        module = self.module(node.path)
        if node.name == WHOLE:
            return [(name, Node(node.path, name)) for name in module.definitions]
        if node.name == EFFECTS:  # importing a module imports its packages and other modules
            packages = Path(node.path).parents[Path(node.path).name == "__init__.py" :]
            inits = (os.path.join(package, "__init__.py") for package in packages)
            effects = [Node(path, EFFECTS) for path in itertools.takewhile(os.path.exists, inits)]
            origins = module.imports.values()
            effects += (each for origin in origins for each in self._effects(node.path, *origin))
        else:
            effects = [Node(node.path, EFFECTS)]
            if origin := module.imports.get(node.name):
                effects += self._resolved(node.path, origin[0], [*filter(None, origin[1:])])
            elif node.name not in module.definitions:  # imported by *
                effects.append(Node(node.path, WHOLE))
        needed = [("", each) for each in effects]
        for use in self.definition(node).uses:
            needed += [(".".join(use.names), each) for each in self._targets(node.path, module, use)]
        return list(dict.fromkeys(needed))

    def _targets(self, path: str, module: Module, use: Use) -> Iterator[Node]:
        if (origin := _origin(module, use)) is not None:
            if use.module is not None:
                yield from self._effects(path, *origin)
            if use.names:
                yield from self._resolved(path, origin[0], [*filter(None, origin[1:]), *use.names[1:]])
        elif use.names[0] in module.definitions:
            yield Node(path, use.names[0])

    def _effects(self, path: str, name: str, attribute: str | None) -> Iterator[Node]:
        """Yield the effects of importing a module and, if the attribute is a module in it, of that."""
        for each in (name, f"{name}.{attribute}") if attribute else (name,):
            if place := self.locate(each, path):
                yield Node(place, EFFECTS)

    def _resolved(self, path: str, name: str, names: list[str]) -> Iterator[Node]:
        """Yield the definition with these names in a module; the whole module if it cannot be told."""
        while names and self.locate(f"{name}.{names[0]}", path):
            name, names = f"{name}.{names[0]}", names[1:]
        if (place := self.locate(name, path)) is None:
            return
        module = self.module(place)
        if not names:
            yield Node(place, WHOLE)
        elif names[0] in module.definitions:
            yield Node(place, names[0])
        elif names[0] in module.imports:
            origin, attribute = module.imports[names[0]]
            yield from self._resolved(place, origin, [*filter(None, [attribute]), *names[1:]])
        else:
            yield Node(place, EFFECTS if names[0].startswith("__") else WHOLE)

    def _sign(self, node: Node, depth: int) -> str:
        """Return a hash of a definition and, up to `depth` uses away, of what the names in it stand for."""
        own, module = self.definition(node), self.module(node.path)
        beside = [self._content(Path(node.path).with_name(name)) for name in own.files]
        installed = [
            [use.names[:1], *origin]
            for use in own.uses
            if (origin := _origin(module, use)) and not self.locate(origin[0], node.path)
        ]
        used = {
            (name, self._signature(target, depth - 1))
            for name, target in (self.needed(node) if depth else ())
            if target.name != EFFECTS  # which are reached themselves
        }
        return _sha256([own.text, beside, installed, sorted(used)])

    def _content(self, path: Path) -> list[str]:
        """Return the SHA-256 of a file, or of all files below a folder."""
        paths = sorted(filter(Path.is_file, path.rglob("*"))) if path.is_dir() else [path]
        for each in paths:
            self.seen[str(each)] = stat_key(each)
        return [hashes.sha256(each) for each in paths]


def _origin(module: Module, use: Use) -> tuple[str, str | None] | None:
    """Return the module and attribute that a name is imported from; None if it is not imported."""
    if use.module is not None:
        return use.module, use.attribute
    return None if use.names[0] in module.definitions else module.imports.get(use.names[0])


def current() -> Graph:
    """Return the graph of this process, a new one if a file has changed."""
    global _graph
    if not _graph.is_current():
        _graph = Graph()
    return _graph


def is_installed(path: str | Path) -> bool:
    """Return whether a file or folder is part of Python or of an installed package."""
    return f"{os.path.realpath(path)}{os.sep}".startswith(INSTALLED)


def _file(name: str, beside: str) -> str | None:
    """Return the file of a module that a file in the folder `beside` imports; None if it is installed."""
    return _find(name, (beside,) if beside == str(LIBRARY.parent) else _folders(name, beside))


def _folders(name: str, beside: str) -> tuple[str, ...]:
    """Return the folders in which a module outside of the library finds others that are not installed.

    To an installed one, these are those of its own package.
    """
    path = Path(beside, "module.py")
    root = import_root(path)
    if is_installed(beside):
        own = path.relative_to(root).parts[0] == name.partition(".")[0]
        return (str(root),) if own else ()
    return (str(root), *(each or os.getcwd() for each in ["", *sys.path] if not is_installed(each)))


def _find(name: str, folders: Iterable[str]) -> str | None:
    """Return the file of a module that is in one of the folders, or in further ones of its packages."""
    module, folders, names = None, [*folders], name.split(".")
    for i, part in enumerate(names):
        package = sys.modules.get(".".join(names[:i]))
        folders += [path for path in getattr(package, "__path__", ()) if path not in folders]
        module, folders = _module_in(folders, part)
        if not module and not folders:
            return None
    return module


def _module_in(folders: list[str], name: str) -> tuple[str | None, list[str]]:
    """Return the file of a module in one of the folders, and the folders of its own modules."""
    for folder in folders:
        path = os.path.join(folder, name)
        if os.path.isfile(file := os.path.join(path, "__init__.py")):
            return file, [path]
        if os.path.isfile(file := f"{path}.py"):
            return file, []
    return None, [path for folder in folders if os.path.isdir(path := os.path.join(folder, name))]


def _sha256(value: Any) -> str:
    return hashlib.sha256(json.dumps(value).encode()).hexdigest()[:16]


@cache
def _hashing() -> str:
    """Return what affects hashes besides files: this code, and Python's layout of syntax trees."""
    return f"{sys.version} {hashes.sha256(definitions.__file__)}"


#: what files define; parsing them all takes seconds
MODULES = FileCache("code.json", _hashing)
_graph = Graph()
