"""Examples as prompts for language models, in the method `prompted`: `PROMPTS` of a kind of task."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, cast

import pandas as pd
import pyarrow as pa

from headspec.tables import INT, Schema
from headspec.tasks.parts import Classes, load_part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headspec.config.sections.model import Model
    from headspec.data.prepare import Prepared
    from headspec.errors import HeadspecError
    from headspec.tasks.keys import TaskKeys
    from headspec.tasks.kinds.texts.wording import Wording


COLUMNS = Schema(
    {"words": pa.list_(INT), "continuations": pa.list_(pa.list_(INT))},
    keys=0,
    about={
        "words": "in prompts with a mask, 0 there and -1 elsewhere; else null",
        "continuations": "in prompts, tokens of the answers that are scored; in pairs, of the right and the "
        "wrong text after their common beginning; null where an answer is the next token",
    },
)


class Prompt(NamedTuple):
    """The tokens of a prompt; `cut` is whether a text was truncated.

    `words` is 0 at the mask and -1 elsewhere, or None if there is no mask. `continuations` has the tokens of
    each answer to score, or is None if only the next token is scored.
    """

    input_ids: list[int]
    words: list[int] | None
    cut: bool
    continuations: list[list[int]] | None = None


class Prompting:
    """The examples of a task as prompts of at most `most` tokens; `PROMPTS` of a kind is a subclass.

    If `continues`, the model must continue texts. Raises ModelError if the tokenizer lacks a token or a
    template that prompts need.
    """

    continues = False
    columns = COLUMNS

    def __init__(self, tokenizer: PreTrainedTokenizerBase, wording: Wording, most: int, key: str) -> None:
        self.tokenizer, self.wording, self.most, self.key = tokenizer, wording, most, key

    @property
    def scored(self) -> str:
        """The config key that requires scoring whole continuations; empty if none does."""
        return f"{self.key}.type"

    def labels(self, classes: list[str]) -> list[str]:
        """Return the names of scored continuations."""
        return classes

    def classes(self, classes: list[str], kind: str) -> Classes:
        """Return the `Classes` of a task of a `kind` whose continuations are scored or written."""
        return {"type": kind, "labels": self.labels(classes)}

    @classmethod
    def answer(cls, wording: Wording, label: str, classes: Sequence[str]) -> str:
        """Return the answer to the prompt of an example with this label."""
        raise NotImplementedError

    @classmethod
    def showing(cls, wording: Wording, rows: pd.DataFrame, classes: Sequence[str]) -> Wording:
        """Return a wording after demonstrations: rows of a data table, each with its answer."""
        return wording.showing(rows, [cls.answer(wording, label, classes) for label in rows["label"]])

    def answers(self, classes: Sequence[str]) -> list[int]:
        """Return the token of each class's answer; empty if continuations are scored."""
        return []

    def content_free(self) -> list[Prompt]:
        """Return content-free prompts for calibration; none by default."""
        return []

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        """Return the prompts of all examples of a data table."""
        raise NotImplementedError

    def encode(self, table: pd.DataFrame, classes: Sequence[str]) -> tuple[pd.DataFrame, int]:
        """Return the table 'tokens' of all examples, and the number of examples with a cut text.

        The label is the index in `classes`, or 0 for the right continuation. Raises ModelError if a prompt
        does not fit or has no tokens.
        """
        prompts, index = self.prompts(table, classes), {name: float(i) for i, name in enumerate(classes)}
        label = table["label"].map(index) if classes else 0.0
        frame = pd.DataFrame({"example": table["example"], "label": label, "token_type_ids": None})
        for name in ("input_ids", "words", "continuations"):
            values = [getattr(prompt, name) for prompt in prompts]
            frame[name] = pd.Series(values, index=table.index, dtype=object)
        return frame, sum(prompt.cut for prompt in prompts)

    def problems(
        self, model: Model, model_key: str, task: TaskKeys, prepared: Prepared
    ) -> Iterator[HeadspecError]:
        """Yield, while planning, problems with answers and with prompts without demonstrations."""
        return iter(())


def prompting(kind: str) -> type[Prompting]:
    """Return `PROMPTS` of a kind of task."""
    return cast(type[Prompting], load_part(kind, "PROMPTS"))
