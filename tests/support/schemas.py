"""The schema of every table by the table's name."""

from headspec.pipeline.outputs import schemas

SCHEMAS = schemas()
