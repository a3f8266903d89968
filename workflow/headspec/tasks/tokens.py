"""From examples to tokens: the part ``tokens.py`` of a kind of task, which jobs import by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, cast

import pandas as pd
import pyarrow as pa

from headspec.models.architectures import READS
from headspec.tasks import load_part
from headspec.tasks.classes import Classes, type_of

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase


#: metric: signature of the library that counted for it in this process
SIGNATURES: dict[str, str] = {}


class Encoding:
    """How examples of a kind of task become rows of the table 'tokens'.

    Attributes
    ----------
    columns : further columns of the table
    writes : whether the model writes texts, for which it needs its tokenizer
    """

    columns: Mapping[str, pa.DataType] = {}
    writes = False

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        """Tokenize all examples of a data table, labelled or not, with at most `max_length` tokens each.

        Return the table 'tokens', without null columns, and the number of truncated examples. `table` has
        columns example, text_a, text_b and, if labelled, label.
        """
        raise NotImplementedError

    def completed(
        self, tokenizer: PreTrainedTokenizerBase, classes: Any, max_length: int, key: str, family: str = READS
    ) -> Classes:
        """Return `Classes` with what a model of this `family` needs beside them; errors name `key`."""
        return classes

    def begin(self, tokenizer: PreTrainedTokenizerBase, classes: Any, key: str = "") -> str:
        """Set the languages of a tokenizer, and return the text before every source.

        Raise EncoderError, which names a key below `key`, if the tokenizer lacks a language.
        """
        return ""

    def marks(self, classes: Any) -> list[int]:
        """Return the special tokens around texts that the model writes."""
        return []

    def ends(self, classes: Any) -> list[int]:
        """Return the special tokens after texts that the model writes."""
        return []


def encoding(classes: Classes) -> Encoding:
    """Return `ENCODING` of the kind of a task."""
    return cast(Encoding, load_part(type_of(classes), "tokens").ENCODING)
