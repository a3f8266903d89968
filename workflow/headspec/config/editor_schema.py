"""The JSON schema of the study config, by which editors complete and check it.

Unlike `headspec.config.reference.schema` it allows all that `headspec.config.loading` takes: numbers as
text, which is what YAML 1.1 makes of ``2e-5``, and numbers as text values such as names.
"""

from __future__ import annotations

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from headspec.config.sections.base import PLUGGED
from headspec.config.study import Study

NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


class _Lenient(GenerateJsonSchema):
    """Bounds of numbers and patterns of text hold for values of that type alone."""

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
    """`node`, where names that plugins add to may be other ones."""
    if isinstance(node, list):
        return [_open(each) for each in node]
    if not isinstance(node, dict):
        return node
    inner = {key: _open(value) for key, value in node.items() if key != PLUGGED}
    if PLUGGED in node:
        inner = {"anyOf": [{"enum": inner.pop("enum")}, {"type": inner.pop("type")}], **inner}
    return inner


def text() -> str:
    """The schema (JSON Schema, draft 2020-12) as the text of a JSON file."""
    schema = _open(Study.model_json_schema(schema_generator=_Lenient))
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2) + "\n"
