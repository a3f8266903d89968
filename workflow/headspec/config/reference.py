"""The config reference, and the schema for editors, generated from `headspec.config.study`.

``headspec reference FILE`` and ``headspec schema FILE`` update them.
"""

import json
import re
from collections.abc import Iterator
from functools import cache
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from headspec.config import plugin_entries
from headspec.config.study import Study
from headspec.errors import HeadspecError
from headspec.sections import PLUGGED

Node = dict[str, Any]

BEGIN, END = "<!-- config reference: begin -->", "<!-- config reference: end -->"
TYPES = {
    "string": "text",
    "integer": "integer",
    "number": "number",
    "boolean": "true or false",
    "object": "mapping",
}
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


def schema() -> Node:
    """Return the JSON schema of the study config, with references to sections resolved."""
    return _schema(plugin_entries.names())


@cache
def _schema(names: tuple[str, ...]) -> Node:
    """Return the schema, cached by the `names` that plugins have added."""
    definitions = Study.model_json_schema()

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(n) for n in node]
        if not isinstance(node, dict):
            return node
        references = [n for n in node.get("anyOf", [node]) if "$ref" in n]  # anyOf: an optional section
        section = inline(definitions["$defs"][references[0]["$ref"].split("/")[-1]]) if references else {}
        if references:
            node = {key: value for key, value in node.items() if key != "anyOf"}
        return section | {key: inline(n) for key, n in node.items() if key not in ("$ref", "$defs")}

    schema: Node = inline(definitions)
    return schema


def child(node: Node, part: str | int) -> Node:
    """Return the schema of the entry `part` of a value described by `node`; empty if there is none."""
    branches: list[Node] = node.get("anyOf", [node])
    for branch in branches:
        properties: dict[str | int, Node] = branch.get("properties", {})
        if part in properties:
            return properties[part]
        if isinstance(part, int) and "items" in branch:
            items: Node = branch["items"]
            return items
        if entry := _entry(branch):
            return entry
    return {}


def sections(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Yield the dotted key and schema of `node` and of every section in it."""
    yield path, node
    for key, value in node["properties"].items():
        dotted = f"{path}.{key}" if path else key
        if "properties" in value:
            yield from sections(value, dotted)
        elif "properties" in _entry(value):
            yield from sections(_entry(value), f"{dotted}.<name>")


def allowed(node: Node) -> str:
    """Return the values that `node` accepts, in words such as ``number > 0 and <= 1``."""
    if "anyOf" in node:
        return " or ".join(allowed(n) for n in node["anyOf"] if n != {"type": "null"})
    if "enum" in node:
        more = [*node["enum"], *(["one of a plugin"] if node.get(PLUGGED) else [])]
        return f"{', '.join(more[:-1])} or {more[-1]}"
    if "items" in node:
        return f"{'non-empty ' if node.get('minItems') else ''}list of {allowed(node['items'])}"
    if "properties" in node:
        return "section"
    if entry := _entry(node):
        return f"{'non-empty ' if node.get('minProperties') else ''}mapping of name to {allowed(entry)}"
    bounds = " and ".join(f"{sign} {node[key]:g}" for key, sign in BOUNDS.items() if key in node)
    return f"{node.get('format') or TYPES[node['type']]} {bounds}".rstrip()


def markdown() -> str:
    """Return the config reference: for each section, a list of key, allowed values, default and meaning."""
    return "\n".join(_list(path, section) for path, section in sections(schema()))


def updated(text: str) -> str:
    """Return `text` with the reference between its two markers replaced by the current one."""
    return between(text, BEGIN, END, "\n" + markdown())


def between(text: str, begin: str, end: str, new: str) -> str:
    """Return `text` with `new` between the markers `begin` and `end`.

    Raises HeadspecError if a marker is missing.
    """
    before, opening, rest = text.partition(begin)
    _, closing, after = rest.partition(end)
    if not (opening and closing):
        raise HeadspecError(f"no place for the table; expected the lines {begin} and {end}")
    return f"{before}{begin}{new}{end}{after}"


def _entry(node: Node) -> Node:
    """Return the schema of the values in a mapping from names; empty for anything else."""
    values = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return next((value for value in values if isinstance(value, dict)), {})


def _list(path: str, section: Node) -> str:
    title = f"`{path}`" if path else "top level"
    rows = [_row(path, key, node) for key, node in section["properties"].items()]
    return "\n".join([f"## {title}", "", section["description"], "", *rows, ""])


def _row(path: str, key: str, node: Node) -> str:
    """Return key, allowed values, default and meaning; for a section, a link to it."""
    if "properties" in node:
        return f"- [`{key}`](#{re.sub('[.<>]', '', path)}{key})"
    values = "; ".join(filter(None, [allowed(node), _default(node)]))
    return f"- `{key}` ({values}): {' '.join(node['description'].split())}"


def _default(node: Node) -> str:
    if "default" not in node:
        return "required"
    value = node["default"]
    if value in (None, "") or "properties" in node:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


class _Lenient(GenerateJsonSchema):
    """A generator whose bounds on numbers and patterns for text apply only to values of that type."""

    def str_schema(self, schema: Any) -> JsonSchemaValue:
        return super().str_schema(schema) | {"type": ["string", "number"]}

    def int_schema(self, schema: Any) -> JsonSchemaValue:
        return super().int_schema(schema) | {"type": ["integer", "string"], "pattern": NUMBER}

    def float_schema(self, schema: Any) -> JsonSchemaValue:
        return super().float_schema(schema) | {"type": ["number", "string"], "pattern": NUMBER}

    def dict_schema(self, schema: Any) -> JsonSchemaValue:
        entries = super().dict_schema(schema)
        entries.pop("propertyNames", None)
        return entries | ({"additionalProperties": False} if "patternProperties" in entries else {})


def _open(node: Any) -> Any:
    """Return `node`, allowing any name where plugins can add names."""
    if isinstance(node, list):
        return [_open(each) for each in node]
    if not isinstance(node, dict):
        return node
    inner = {key: _open(value) for key, value in node.items() if key != PLUGGED}
    if PLUGGED in node:
        inner = {"anyOf": [{"enum": inner.pop("enum")}, {"type": inner.pop("type")}], **inner}
    return inner


def editor_schema() -> str:
    """Return the JSON schema of the config for editors (draft 2020-12), as the text of a JSON file.

    It is as lenient as `headspec.config.loading`: it allows numbers as text, as YAML 1.1 reads ``2e-5``, and
    numbers as names and other text values.
    """
    schema = _open(Study.model_json_schema(schema_generator=_Lenient))
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2) + "\n"
