"""From examples to tokens: `ENCODING` of a kind of task."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, cast

import pandas as pd

from headspec.tables import Schema
from headspec.tasks.parts import Classes, load_part, type_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


class Encoding:
    """How examples become rows of the table 'tokens', to which it adds `columns`.

    If `writes`, the model writes texts, for which it needs its tokenizer.
    """

    columns = Schema({}, keys=0)
    writes = False

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        """Return the table 'tokens' for a data table, labelled or not, and the number of truncated examples.

        `table` has columns example, text_a, text_b and perhaps label. Null columns are left out.
        """
        raise NotImplementedError

    def completed(
        self, tokenizer: PreTrainedTokenizerBase, classes: Classes, max_length: int, key: str, family: str
    ) -> Classes:
        """Return `Classes`, completed with what a model of this `family` needs; errors name `key`."""
        return classes

    def begin(self, tokenizer: PreTrainedTokenizerBase, classes: Any, key: str = "") -> str:
        """Set a tokenizer's languages and return the text before sources.

        Raises ModelError, which names the `key` of the task, if a language is missing or unknown.
        """
        return ""

    def marks(self, classes: Any) -> list[int]:
        """Return the special tokens around texts that the model writes."""
        return []

    def ends(self, classes: Any) -> list[int]:
        """Return the special tokens after texts that the model writes."""
        return []

    def signatures(self, classes: Any) -> dict[str, str]:
        """Return the signatures, by metric, of the library that computes them."""
        return {}


def encoding(classes: Classes) -> Encoding:
    """Return `ENCODING` of the kind of a task."""
    return cast(Encoding, load_part(type_of(classes), "ENCODING"))


def signatures(tasks: Iterable[Classes]) -> dict[str, str]:
    """Return the `signatures` of all metrics of tasks."""
    return {metric: text for task in tasks for metric, text in encoding(task).signatures(task).items()}
