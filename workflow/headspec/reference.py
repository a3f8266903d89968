"""The config reference, generated from the models in `headspec.study`.

``python -m headspec.reference README.md`` brings the reference in a file up to date.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from headspec.errors import HeadspecError
from headspec.study import Study

Node = dict[str, Any]

BEGIN, END = "<!-- config reference: begin -->", "<!-- config reference: end -->"
TYPES = {"string": "text", "integer": "integer", "number": "number", "object": "mapping"}
BOUNDS = {"minimum": ">=", "exclusiveMinimum": ">", "maximum": "<=", "exclusiveMaximum": "<"}


@cache
def schema() -> Node:
    """JSON schema of the study config, with every section written out where it stands."""
    definitions = Study.model_json_schema()

    def inline(node: Any) -> Any:
        if isinstance(node, list):
            return [inline(n) for n in node]
        if not isinstance(node, dict):
            return node
        wanted = [n for n in node.get("anyOf", [node]) if "$ref" in n]  # a section, or a section or nothing
        section = inline(definitions["$defs"][wanted[0]["$ref"].split("/")[-1]]) if wanted else {}
        if wanted:
            node = {key: value for key, value in node.items() if key != "anyOf"}
        return section | {key: inline(n) for key, n in node.items() if key not in ("$ref", "$defs")}

    return inline(definitions)


def child(node: Node, part: str | int) -> Node:
    """Schema of the entry `part` of what `node` describes; empty where it has none."""
    for branch in node.get("anyOf", [node]):
        if part in branch.get("properties", {}):
            return branch["properties"][part]
        if isinstance(part, int) and "items" in branch:
            return branch["items"]
        if entry := _entry(branch):
            return entry
    return {}


def sections(node: Node, path: str = "") -> Iterator[tuple[str, Node]]:
    """Dotted key and schema of every section in `node`, itself first."""
    yield path, node
    for key, value in node["properties"].items():
        dotted = f"{path}.{key}" if path else key
        if "properties" in value:
            yield from sections(value, dotted)
        elif "properties" in _entry(value):
            yield from sections(_entry(value), f"{dotted}.<name>")


def allowed(node: Node) -> str:
    """What `node` lets a user write, in words such as ``number > 0 and <= 1``."""
    if "anyOf" in node:
        return " or ".join(allowed(n) for n in node["anyOf"] if n != {"type": "null"})
    if "enum" in node:
        return f"{', '.join(node['enum'][:-1])} or {node['enum'][-1]}"
    if "items" in node:
        return f"list of {allowed(node['items'])}{'; at least one' if node.get('minItems') else ''}"
    if "properties" in node:
        return "section"
    if entry := _entry(node):
        return f"mapping of name to {allowed(entry)}{'; at least one' if node.get('minProperties') else ''}"
    bounds = " and ".join(f"{sign} {node[key]:g}" for key, sign in BOUNDS.items() if key in node)
    return f"{node.get('format') or TYPES[node['type']]} {bounds}".rstrip()


def markdown() -> str:
    """The config reference: a table per section of key, what is allowed, default and meaning."""
    return "\n".join(_table(path, section) for path, section in sections(schema()))


def updated(text: str) -> str:
    """`text` with the config reference between its two markers."""
    return between(text, BEGIN, END, "\n" + markdown())


def between(text: str, begin: str, end: str, new: str) -> str:
    """`text` with `new` between the markers `begin` and `end`; HeadspecError where it lacks them."""
    before, found, rest = text.partition(begin)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        raise HeadspecError(f"no place for the table; expected the lines {begin} and {end}")
    return f"{before}{begin}{new}{end}{after}"


def _entry(node: Node) -> Node:
    """Schema of the values of a mapping with free keys; empty for anything else."""
    values = [*node.get("patternProperties", {}).values(), node.get("additionalProperties")]
    return next((value for value in values if isinstance(value, dict)), {})


def _table(path: str, section: Node) -> str:
    title = f"`{path}`" if path else "top level"
    rows = [
        f"| `{key}` | {allowed(node)} | {_default(node)} | {node['description']} |"
        for key, node in section["properties"].items()
    ]
    heading = [f"#### {title}", "", section["description"], ""]
    return "\n".join([*heading, "| key | allowed | default | meaning |", "|---|---|---|---|", *rows, ""])


def _default(node: Node) -> str:
    if "default" not in node:
        return "required"
    value = node["default"]
    if value is None or "properties" in node:
        return ""
    return f"`{value if isinstance(value, str) else json.dumps(value)}`"


if __name__ == "__main__":
    readme = Path(sys.argv[1])
    readme.write_text(updated(readme.read_text(encoding="utf-8")), encoding="utf-8")
