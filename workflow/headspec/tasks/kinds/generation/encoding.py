"""Columns of prompts with answers that a model writes."""

from __future__ import annotations

from headspec.tables import TEXT, Schema
from headspec.tasks.kinds.language_modelling.encoding import COLUMNS as PREDICTED
from headspec.tasks.kinds.texts.encoding import TextEncoding

COLUMNS = Schema(
    {**PREDICTED.columns, "reference": TEXT},
    keys=0,
    about={**PREDICTED.about, "reference": "in generation, the answer that is compared"},
)


class Written(TextEncoding):
    """Encoding of a task whose answers are written, for which models need their tokenizers."""

    columns = COLUMNS
    writes = True


ENCODING = Written()
