"""Numbers of tokens of examples and prompts, which planning counts in a sample of a task's texts."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

import numpy as np
import pandas as pd

from headspec.models import tokenization
from headspec.tasks.kinds.texts.prompting import prompting
from headspec.tasks.kinds.texts.wording import Wording, conversation
from headspec.tasks.parts import load_part

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from headspec.tasks.keys import TaskKeys


class Counts:
    """Counts of tokens; in its methods, `tokenizer` and `texts` are None if they are not on this machine.

    `labels` are those of demonstrations, if not classes; `texts_read` is the number of texts read side by
    side.
    """

    labels: tuple[str, ...] = ()
    texts_read = 1

    def tokens(
        self, tokenizer: PreTrainedTokenizerBase | None, most: int, task: TaskKeys, texts: pd.DataFrame | None
    ) -> tuple[int, int] | None:
        """Return the mean tokens of an example, at most `most`, and of its written text; None if unknown."""
        length = mean(tokenizer, most, texts)
        return None if length is None else (length, 0)

    def prompt_tokens(
        self, tokenizer: PreTrainedTokenizerBase | None, most: int, task: TaskKeys, texts: pd.DataFrame | None
    ) -> tuple[int | None, int]:
        """Return the mean tokens of prompts, None if unknown, and how many of them are demonstrations."""
        most *= self.texts_read
        whole = mean(tokenizer, most, self.prompts(task, texts, tokenizer))
        if not task.shots:
            return whole, 0
        bare = task.model_copy(update={"shots": 0})
        alone = mean(tokenizer, most, self.prompts(bare, texts, tokenizer))
        return whole, whole - alone if whole and alone else 0

    def prompts(
        self, task: TaskKeys, texts: pd.DataFrame | None, tokenizer: PreTrainedTokenizerBase | None
    ) -> pd.DataFrame | None:
        """Return the prompts for `texts`, each with the next texts as demonstrations; None if unknown."""
        classes = list(task.answers or ())
        if texts is None or tokenizer is None or not task.prompt or not (labels := self.labels or classes):
            return None
        if task.chat and tokenizer.chat_template is None:
            return None
        asking = prompting(task.type)
        wording = Wording.for_task(task, classes, load_part(task.type, "KIND").asked(task))
        labelled = texts.assign(label=np.resize(labels, len(texts)))
        whole = "".join(wording.answers) if self.scored(task, tokenizer, 0) else ""

        def read(i: int) -> str:
            shown = labelled.iloc[(i + np.arange(1, task.shots + 1)) % len(labelled)]
            after = asking.showing(wording, shown, classes)
            text = after.filled(labelled["text_a"][i], labelled["text_b"][i], "?")
            return (conversation(tokenizer, after.turns, text) if task.chat else text) + whole

        return texts.assign(text_a=[read(i) for i in range(len(labelled))], text_b=None)

    def scored(self, task: TaskKeys, tokenizer: PreTrainedTokenizerBase | None, length: int) -> int:
        """Return the number of scored tokens in a prompt of `length`; 0 if the answer is a single token."""
        answers = list((task.answers or {}).values())
        if tokenizer is None or not answers or Wording(task.prompt or "", ()).masked:
            return 0
        lengths = list(map(len, tokenizer(answers, add_special_tokens=False)["input_ids"]))
        return sum(lengths) if max(lengths) > 1 else 0


def mean(tokenizer: PreTrainedTokenizerBase | None, most: int, texts: pd.DataFrame | None) -> int | None:
    """Return the mean number of tokens in rows of texts, at most `most` each, rounded; None if unknown."""
    if texts is None or tokenizer is None:
        return None

    def beginning(text: str | None) -> str | None:
        """Return the first `most` words of a text, which have at least as many tokens."""
        words = text.split(maxsplit=most) if text else []
        return " ".join(words[:most]) if len(words) > most else text

    cut = {column: texts[column].map(beginning) for column in ("text_a", "text_b")}
    frame, _ = tokenization.encode(tokenizer, texts[["example"]].assign(**cut), most, None)
    return round(frame["input_ids"].str.len().mean())


def counts(task: TaskKeys) -> Counts:
    """Return `COUNTS` of a task's kind."""
    return cast(Counts, load_part(task.type, "COUNTS"))


COUNTS = Counts()
