"""From the examples of tasks to tokens, by kind of task.

The module `tokens` of a kind is imported when a task needs it, and is part of the code of no other job.
"""

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


#: metric: how a library counts for it, in the library's own notation, as far as this process has used any
SIGNATURES: dict[str, str] = {}


class Encoding:
    """How examples of a kind of task become rows of the table 'tokens'.

    Attributes
    ----------
    columns : of the table, beside those of all kinds
    writes : whether the model writes texts, for which it needs its tokenizer
    """

    columns: Mapping[str, pa.DataType] = {}
    writes = False

    def encode(
        self, tokenizer: PreTrainedTokenizerBase, table: pd.DataFrame, max_length: int, classes: Any
    ) -> tuple[pd.DataFrame, int]:
        """Tokenize all examples of a data table, labelled or not.

        Parameters
        ----------
        table : columns example, text_a, text_b and, if labelled, label
        max_length : maximum number of tokens per example
        classes : of the task

        Returns
        -------
        frame : table 'tokens', without columns that are null
        truncated : number of examples that had more than `max_length` tokens
        """
        raise NotImplementedError

    def completed(
        self, tokenizer: PreTrainedTokenizerBase, classes: Any, max_length: int, key: str, family: str = READS
    ) -> Classes:
        """`Classes` with what a model needs beside them.

        Parameters
        ----------
        key : config key of the task, for errors
        family : of the model (`headspec.models.architectures`)
        """
        return classes

    def begin(self, tokenizer: PreTrainedTokenizerBase, classes: Any, key: str = "") -> str:
        """Let a tokenizer mark texts as those of a task; returns what stands before each.

        Raises
        ------
        EncoderError
            The tokenizer cannot; it names a key below `key`.
        """
        return ""

    def marks(self, classes: Any) -> list[int]:
        """Tokens before and after texts that the model writes."""
        return []

    def ends(self, classes: Any) -> list[int]:
        """Those after texts that the model writes."""
        return []


def encoding(classes: Classes) -> Encoding:
    """Return `ENCODING` of the kind of a task."""
    return cast(Encoding, load_part(type_of(classes), "tokens").ENCODING)
