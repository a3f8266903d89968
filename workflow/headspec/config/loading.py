"""Loading of a raw config as a `Study`, or one error with all its problems."""

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import yaml
from pydantic import ValidationError
from pydantic_core import ErrorDetails

from headspec.config import plugin_entries, raw
from headspec.config.checks import consistency
from headspec.config.reference import allowed, child, schema, sections
from headspec.config.study import Study
from headspec.errors import QUOTE, ConfigError, lines, listing, nearest, shown
from headspec.provenance import files
from headspec.redaction import redacted

#: errors of PyYAML's constructors for values such as 2024-13-45, !!int x, !!bool x and !!timestamp x
MALFORMED = (ValueError, KeyError, AttributeError)


def load(config: dict[str, Any]) -> Study:
    """Return the study of a raw config; numbers may be text, as YAML reads ``2e-5``, names may be numbers.

    Raises ConfigError with a line for each problem: dotted key, value, what was expected, nearest name.
    Forbidden values, plugins, single values and contradictions between keys are checked in this order,
    until one of these checks finds problems.
    """
    config = config or {}
    if problems := raw.forbidden(config):
        raise ConfigError(lines(problems))
    plugin_entries.load(plugin_entries.named(config))
    try:
        study = Study.model_validate(config)
    except ValidationError as error:
        raise ConfigError(lines(dict.fromkeys(map(_worded, error.errors())))) from None
    if problems := [*consistency.problems(study)]:
        raise ConfigError(lines(problems))
    return study


def strict_yaml(path: str | Path) -> dict[str, Any]:
    """Return the mapping in a YAML file; PyYAML and Snakemake would silently keep the last of repeated keys.

    Raises ConfigError if the file cannot be read, is too large or not a YAML mapping, repeats a key, or holds
    a secret or a program.
    """
    if Path(path).exists() and not Path(path).is_file():  # opening a pipe would block forever
        raise ConfigError(f"{path}: {files.NOT_A_FILE}; expected a file")
    try:
        content = Path(path).read_bytes()
        _check_secrets(path, content.decode(errors="replace"))
        node = yaml.compose(content, yaml.SafeLoader)
        if _size(node, {}) > 2 * raw.MOST:  # keys and values, before any walk
            raise ConfigError(f"{path}: too large; expected at most {raw.MOST} values")
        repeated = list(_repeated_keys(node))
        config = yaml.safe_load(content)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except (yaml.YAMLError, *MALFORMED) as error:
        raise ConfigError(f"{path}: not YAML: {' '.join(str(error).split())}") from None
    except RecursionError:
        raise ConfigError(f"{path}: nested too deeply, or contains itself") from None
    if repeated:
        raise ConfigError(lines(f"{path}, line {line}: {problem}" for line, problem in repeated))
    if not isinstance(config, dict):
        raise ConfigError(f"{path}: got {shown(config)}, expected keys and values such as 'study: demo'")
    if raw.PROGRAM in config:  # Snakemake has removed it from the config that it passes on
        raise ConfigError(lines([f"{path}: {'; '.join(raw.forbidden(config))}"]))
    return config


def _check_secrets(path: str | Path, text: str) -> None:
    """Raise ConfigError if a config holds a secret, even in a comment: the report shows the whole file."""
    if (clean := redacted(text)) != text:
        pairs = zip(text.split("\n"), clean.split("\n"), strict=False)
        line = next(number for number, (before, after) in enumerate(pairs, 1) if before != after)
        raise ConfigError(f"{path}, line {line}: {raw.SECRET}.")


def _size(node: Any, sizes: dict[int, int]) -> int:
    """Return the number of keys and values in a YAML node with aliases expanded; `sizes` is a cache by id."""
    if isinstance(node, (list, tuple)):
        return sum(_size(part, sizes) for part in node)
    if id(node) not in sizes:
        sizes[id(node)] = 1 + _size(node.value, sizes) if isinstance(node, yaml.CollectionNode) else 1
    return sizes[id(node)]


def _repeated_keys(node: yaml.Node | None, path: str = "") -> Iterator[tuple[int, str]]:
    """Yield line number and problem for every key that repeats an earlier one in the same mapping."""
    if isinstance(node, yaml.SequenceNode):
        for i, item in enumerate(node.value):
            yield from _repeated_keys(item, _dotted(path, i))
    elif isinstance(node, yaml.MappingNode):
        first: dict[Any, int] = {}
        for key, value in node.value:
            dotted, line = _dotted(path, key.value), key.start_mark.line + 1
            if dotted in first:
                yield line, f"{dotted}: already set on line {first[dotted]}; expected each key once"
            first.setdefault(dotted, line)
            yield from _repeated_keys(value, dotted)


def _worded(error: ErrorDetails) -> str:
    """Return a line for an error of pydantic: key, value, what was expected, and the nearest name."""
    *path, last = location = error["loc"]
    got = error["input"]
    if last == "[key]":
        # pydantic's location has 1 where YAML read true, so take the name from the input
        rule = _schema_at(path[:-1]).get("propertyNames", {}).get("format", "text")
        hint = QUOTE if isinstance(got, bool) else ""
        return f"{_dotted(*path[:-1], got)}: got {shown(got)} as a name, expected {rule}.{hint}"
    key, node = _dotted(*location), _schema_at(location)
    if error["type"] in ("extra_forbidden", "invalid_key"):
        fields = _schema_at(path)["properties"]
        hint = nearest(last, fields) or _elsewhere(str(last))
        return f"{key}: no key '{last}' in {_dotted(*path) or 'the config'}; it has {listing(fields)}.{hint}"
    if error["type"] == "value_error":
        return f"{key}: {error['ctx']['error']}."
    if error["type"] == "missing":
        return f"{key}: missing, expected {allowed(node)}."
    while not node:  # for a value of several types, the location continues with the type
        location = location[:-1]
        key, node = _dotted(*location), _schema_at(location)
    hint = nearest(got, node.get("enum", ()))
    options = node.get("anyOf", [node])  # null also stands for a missing key
    if isinstance(got, bool) and any(option.get("type") == "string" for option in options):
        hint = QUOTE
    bare = shown(got).strip("'")
    if any("items" in option for option in options) and isinstance(got, (str, int, float)):
        hint = f" Did you mean [{bare}]?"
    elif any("source" in option.get("properties", ()) for option in options) and isinstance(got, str):
        hint = f" Did you mean {{source: {bare}}}?"
    return f"{key}: got {shown(got)}, expected {allowed(node)}.{hint}"


def _elsewhere(key: str) -> str:
    """Return a hint to the section, or top level, that has `key`."""
    places = [path for path, section in sections(schema()) if key in section["properties"]]
    if not places:
        return ""
    return (
        f" Did you mean '{_dotted(places[0], key)}'?"
        if places[0]
        else f" '{key}' is a key of the config itself."
    )


def _schema_at(location: Iterable[str | int]) -> dict[str, Any]:
    return functools.reduce(child, location, schema())


def _dotted(*keys: object) -> str:
    return ".".join(str(key) for key in keys if key != "")
