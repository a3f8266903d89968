"""The part ``prompts.py`` of a kind of task: how its examples are put to a language model.

It is imported when the method `prompted` has such a task.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, cast

from headspec.tasks import load_part

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa
    from transformers import PreTrainedTokenizerBase

    from headspec.config.sections.model import Model
    from headspec.config.sections.task import Task
    from headspec.data.prepare import Prepared
    from headspec.errors import HeadspecError


class Encoder(Protocol):
    """The examples of a task for one language model.

    Attributes
    ----------
    columns : of the table 'tokens', beside those of all kinds
    """

    columns: Mapping[str, pa.DataType]

    def answers(self, classes: Sequence[str]) -> list[int]:
        """The token of each class's answer; none where continuations are scored."""

    def content_free(self) -> Sequence[Any]:
        """The tokens of prompts whose texts say nothing (`headspec.tasks.texts.prompts.Prompt`)."""

    def encode(self, table: pd.DataFrame, classes: Sequence[str]) -> tuple[pd.DataFrame, int]:
        """The table 'tokens' of a data table, and of how many examples a text was cut."""


class Prompting(Protocol):
    """The object `PROMPTS` of a kind's ``prompts.py``.

    Attributes
    ----------
    continues : whether it needs a model that continues texts
    """

    continues: bool

    def labels(self, classes: list[str]) -> list[str]:
        """Names of the continuations that are scored."""

    def encoder(
        self,
        tokenizer: PreTrainedTokenizerBase,
        task: Task,
        classes: list[str],
        shown: pd.DataFrame | None,
        most: int,
        key: str,
    ) -> Encoder:
        """What makes prompts of examples.

        Parameters
        ----------
        shown : rows that are answered before each prompt
        most : tokens that a prompt has at most
        key : config key of the task, for errors

        Raises
        ------
        EncoderError
            The tokenizer lacks what the prompts need.
        """

    def scored(self, encoder: Any, key: str) -> str:
        """The config key that asks for whole continuations to be scored; empty where none does."""

    def problems(
        self, encoder: Any, model: Model, model_key: str, task: Task, key: str, prepared: Prepared
    ) -> Iterator[HeadspecError]:
        """What planning finds in prompts and answers, without demonstrations."""


def prompting(kind: str) -> Prompting:
    """Return `PROMPTS` of a kind of task."""
    return cast(Prompting, load_part(kind, "prompts").PROMPTS)
