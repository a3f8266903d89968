"""Plugins of a study, which add measures, pruning methods and kinds of tasks to the lists."""

from __future__ import annotations

import ast
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo

from headspec import plugins
from headspec.config import pruning_methods
from headspec.config.measures import heads, similarity
from headspec.config.measures.heads import HeadMeasure
from headspec.config.measures.similarity import SimilarityMeasure
from headspec.config.pruning_methods import PruningMethod
from headspec.config.sections.task import renew_keys
from headspec.config.sources import locate
from headspec.config.study import Study
from headspec.config.values import ALL, BASELINE, SIZE
from headspec.errors import ConfigError, DataError, lines, listing, nearest, shown
from headspec.plugins import HEADS, SIMILARITY, TEXT_SCORE
from headspec.redaction import redacted
from headspec.registry import unknown
from headspec.sections import NAME_RULE, Name
from headspec.tasks import parts, text_scores
from headspec.tasks.keys import TaskKeys
from headspec.tasks.kind import Kind
from headspec.tasks.registry import KINDS


class Entries:
    """Entries that plugins add to each list, by name."""

    def __init__(self) -> None:
        self.heads: dict[str, HeadMeasure] = {}
        self.similarity: dict[str, SimilarityMeasure] = {}
        self.pruning_methods: dict[str, PruningMethod] = {}
        self.text_scores: dict[str, str] = {}
        self.kinds: dict[str, Kind] = {}
        self.registering: list[str] = []  # plugins that register types of models

    def plug(self) -> None:
        """Replace the entries of earlier plugins by these, and renew the keys of tasks."""
        heads.MEASURES.plug(self.heads)
        similarity.MEASURES.plug(self.similarity)
        pruning_methods.PRUNING_METHODS.plug(pruning_methods.ranked(self.heads) | self.pruning_methods)
        text_scores.OWN.plug(self.text_scores)
        KINDS.plug(self.kinds)
        os.environ[plugins.REGISTERING] = os.pathsep.join(self.registering)
        renew_keys(Study, *Study.__subclasses__())

    def add(self, declared: plugins.Declaration, function: str) -> None:
        """Add what was declared of a function; raise ConfigError for an unusable name, or an unknown `of`."""
        declares, name, label, of = declared.declares, declared.name, declared.label, declared.of
        _check_name(name)
        taken = self._head_names()
        if declares in (SIMILARITY, TEXT_SCORE):
            taken = (
                {*similarity.MEASURES, *self.similarity} if declares == SIMILARITY else {*self.text_scores}
            )
        if name.lower() in {other.lower() for other in taken}:
            raise ConfigError(f"'{name}' is already taken (case is ignored); choose another name")
        if declares == SIMILARITY:
            if name.lower() in (predictors := (SIZE, ALL, BASELINE)):
                raise ConfigError(
                    f"'{name}' is a predictor of gains; expected a name other than {listing(predictors)}"
                )
            if of not in similarity.TRAITS:
                raise unknown("trait", of, similarity.TRAITS)
            self.similarity[name] = SimilarityMeasure(label, of, function)
        elif declares == TEXT_SCORE:
            self.text_scores[name] = function
        elif declares == HEADS:
            if of not in (None, *heads.STANDARD):
                raise unknown("table of measures", of, heads.STANDARD)
            self.heads[name] = HeadMeasure(label, name, of, function=function)
        else:
            self.pruning_methods[name] = PruningMethod(label, "plugged", function=function)

    def add_kind(self, folder: Path) -> None:
        """Add the kind of task in a folder; raise ConfigError if it is missing or unusable."""
        name = folder.name
        _check_name(name)
        if name in {path.stem for path in parts.KINDS.iterdir()} | {*KINDS, *self.kinds}:
            raise ConfigError(f"{folder}: '{name}' is already taken; choose another name")
        parts.plug([*parts.plugged().values(), folder])
        kind = plugins.attempted(str(folder), f"{parts.PACKAGE}.{name}.kind")
        if not isinstance(instance := getattr(kind, "KIND", None), Kind):
            raise ConfigError(f"{folder}/kind.py: got {shown(instance)} as KIND, expected a Kind")
        if problems := [*_kind_problems(folder, instance, KINDS | self.kinds)]:
            raise ConfigError(lines(problems))
        self.kinds[name] = instance

    def _head_names(self) -> set[str]:
        """Return the names of tables, measures and pruning methods of heads, which share folders."""
        tables = {*heads.STANDARD, *heads.OTHERS}
        return {
            *heads.MEASURES,
            *pruning_methods.PRUNING_METHODS,
            *tables,
            *self.heads,
            *self.pruning_methods,
        }


def _check_name(name: Any) -> None:
    try:
        TypeAdapter(Name).validate_python(name, strict=True)
    except ValidationError:
        raise ConfigError(f"got {shown(name)} as a name, expected {NAME_RULE}") from None


def named(config: Any) -> list[str]:
    """Return the plugins of a raw config; empty if not a list of texts, which is refused later."""
    plugins = config.get("plugins") if isinstance(config, dict) else None
    return plugins if isinstance(plugins, list) and all(isinstance(each, str) for each in plugins) else []


def names() -> tuple[str, ...]:
    """Return all names in the lists that plugins extend, and the keys of their kinds of tasks."""
    keys = [f"{name}.{key}" for name, kind in KINDS.items() for key in kind.keys]
    lists = (heads.MEASURES, similarity.MEASURES, pruning_methods.PRUNING_METHODS, KINDS, text_scores.OWN)
    return (*(name for each in lists for name in each), *keys)


def notice(config: Any) -> str:
    """Return a line that names the plugins that planning imports; empty without any."""
    return redacted(f"plugins: imports {listing(named(config))}") if named(config) else ""


def load(names: Iterable[str]) -> None:
    """Import plugins and replace the entries of earlier ones.

    Raises ConfigError, where possible with file and line, if a plugin cannot be imported, or declares nothing
    or something invalid; then no plugin has entries.
    """
    Entries().plug()
    parts.plug([])
    entries, problems = Entries(), []
    for i, where in enumerate(names):
        try:
            if plugins.is_path(where) or plugins.is_folder(where):
                locate(where, f"plugins.{i}")
            _add(entries, where)
        except ConfigError as error:
            problems += [ConfigError(f"plugins.{i}: {problem}") for problem in error.errors]
        except DataError as error:
            problems.append(ConfigError(error))
    if problems:
        raise ConfigError.combined(problems)
    entries.plug()


def _add(entries: Entries, where: str) -> None:
    """Add what a plugin declares; raise one ConfigError for all its problems."""
    if plugins.is_folder(where):
        return entries.add_kind(Path(where).expanduser())
    module = plugins.imported(where)
    declared, problems = plugins.declared(module), []
    if registers := plugins.registers_types(module):
        path = Path(where).expanduser().absolute()
        entries.registering.append(str(path) if plugins.is_path(where) else where)
    for function, declaration in declared:
        try:
            entries.add(declaration, f"{where}:{function}")
        except ConfigError as error:
            problems.append(ConfigError(f"{declaration.file}, line {declaration.line}: {error}"))
    if not (declared or registers):
        expected = "functions under a decorator of headspec.plugins, such as @head_measure"
        problems.append(ConfigError(f"{where} declares nothing; expected {expected}"))
    if problems:
        raise ConfigError.combined(problems)


#: parts without which no stage can run
NEEDED = ("DATA", "ENCODING", "HEAD")


def _kind_problems(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    """Yield problems with the `kind` in a folder, given the `others`."""
    if lacking := [name for name in ("about", "metrics") if not getattr(kind, name, None)]:
        yield f"{folder}/kind.py: KIND has no {listing(lacking)}, which `Kind` requires"
        return
    package = plugins.attempted(str(folder), f"{parts.PACKAGE}.{folder.name}")
    family = getattr(package, "FAMILY", parts.TEXTS)
    families = sorted(path.parent.name for path in parts.KINDS.glob("*/__init__.py"))
    if family not in families:
        hint = nearest(family, families)
        yield f"{folder}/__init__.py: got FAMILY {shown(family)}, expected one of {listing(families)}.{hint}"
        return
    if unusable := [*_parts(folder, kind)]:
        yield from unusable
        return
    yield from _metrics(folder, kind, others)
    for name, definition in kind.keys.items():
        if problem := _key(name, definition, others.values()):
            yield f"{folder}/kind.py: key {shown(name)} {problem}"


def _parts(folder: Path, kind: Kind) -> Iterator[str]:
    """Yield problems that keep parts from being found; modules are parsed, not run."""
    for path in sorted(folder.glob("*.py")):
        try:
            defined, _ = _names(path)
        except SyntaxError as error:
            yield f"{path}, line {error.lineno}: {type(error).__name__}: {error.msg}"
            return
        for name in defined.intersection(parts.PARTS):
            if path.stem != name.lower():
                yield f"{path}: defines {name}, which belongs in {name.lower()}.py"
    for name in (*NEEDED, "TASK") if kind.on_words else NEEDED:
        found = parts.file_of(folder.name, name)
        if not found or not any(name in names for names in _names(found)):
            yield f"{folder}/{name.lower()}.py: does not define {name}"


def _names(path: Path) -> tuple[set[str], set[str]]:
    """Return the names that a module defines at its top level, and those that it imports."""
    body = ast.parse(path.read_bytes(), str(path)).body
    imports = [each for each in body if isinstance(each, (ast.Import, ast.ImportFrom))]
    assigned = (each for each in body if isinstance(each, (ast.Assign, ast.AnnAssign)))
    stored = (node for each in assigned for node in ast.walk(each) if isinstance(node, ast.Name))
    names = {node.id for node in stored if isinstance(node.ctx, ast.Store)}
    names |= {each.name for each in body if isinstance(each, (ast.ClassDef, ast.FunctionDef))}
    return names, {alias.asname or alias.name for each in imports for alias in each.names}


def _metrics(folder: Path, kind: Kind, others: Mapping[str, Kind]) -> Iterator[str]:
    valid = [metric for other in others.values() for metric in other.metrics]
    if (folder / "metrics.py").is_file():
        plugins.attempted(str(folder), f"{parts.PACKAGE}.{folder.name}.metrics")
        valid = [*parts.load_part(folder.name, "METRICS"), *valid]
    for metric in (*kind.metrics, *kind.usual):
        if metric not in valid:
            expected = f"one of METRICS of the kind, or of another type.{nearest(metric, valid)}"
            yield f"{folder}/kind.py: got metric {shown(metric)}, expected {expected}"


def _key(name: Any, definition: Any, others: Iterable[Kind]) -> str:
    """Return the problem with a key and its definition; empty if there is none."""
    same = [other.keys[name] for other in others if name in other.keys]
    if all(other == definition for other in same) and same:
        return ""  # inherited
    if same or (isinstance(name, str) and hasattr(TaskKeys, name)) or name in TaskKeys.model_fields:
        return "is already taken; choose another name"
    if not (isinstance(name, str) and name.isidentifier() and name[0] != "_"):
        return "cannot be a key; expected letters, digits and '_', the first a letter"
    if not (isinstance(definition, tuple) and len(definition) == 2 and isinstance(definition[1], FieldInfo)):
        return f"has {shown(definition)}, expected a type and a Field of pydantic"
    if definition[1].is_required():
        return "has no default, which tasks of other types need"
    try:
        TypeAdapter(Annotated[definition]).json_schema()
    except (PydanticUserError, TypeError, NameError) as error:
        return f"has a type that a config cannot have: {str(error).splitlines()[0]}"
    return ""
