"""The JSON schema of the study config for editors, as lenient as `headspec.config.loading`.

It allows numbers as text, as YAML 1.1 reads ``2e-5``, and numbers as names and other text values.
"""

import json
from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue

from headspec.config.sections.base import PLUGGED
from headspec.config.study import Study

NUMBER = r"^[-+]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?$"


class _Lenient(GenerateJsonSchema):
    """A generator whose bounds of numbers and patterns of text hold only for values of that type."""

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
    """Return `node` with any name allowed where plugins can add names."""
    if isinstance(node, list):
        return [_open(each) for each in node]
    if not isinstance(node, dict):
        return node
    inner = {key: _open(value) for key, value in node.items() if key != PLUGGED}
    if PLUGGED in node:
        inner = {"anyOf": [{"enum": inner.pop("enum")}, {"type": inner.pop("type")}], **inner}
    return inner


def text() -> str:
    """Return the schema (JSON Schema, draft 2020-12) as the text of a JSON file."""
    schema = _open(Study.model_json_schema(schema_generator=_Lenient))
    return json.dumps({"$schema": GenerateJsonSchema.schema_dialect, **schema}, indent=2) + "\n"
