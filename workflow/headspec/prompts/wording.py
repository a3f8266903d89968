"""The words of prompts: demonstrations, the example, and the answers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from headspec.data.stratify import stratified_order

#: between a demonstration and the next prompt
BETWEEN = "\n\n"
#: texts without content (Zhao et al. 2021)
CONTENT_FREE = ("N/A", "[MASK]", "")


@dataclass(frozen=True)
class Wording:
    """How the examples of a task become prompts.

    Attributes
    ----------
    prompt : with the fields ``{text_a}`` and, of pairs, ``{text_b}``
    answers : of each class, in the order of the classes
    before : what stands before every prompt: the demonstrations
    """

    prompt: str
    answers: tuple[str, ...]
    before: str = ""

    @classmethod
    def of(cls, task: Any, classes: list[str]) -> Wording:
        """The wording of a task, without demonstrations.

        Parameters
        ----------
        task : its keys `prompt` and `answers`
        """
        return cls(task.prompt, tuple(task.answers[name] for name in classes))

    def filled(self, text_a: str | None, text_b: str | None) -> str:
        """The prompt of an example."""
        return self.before + self.prompt.format(text_a=text_a, text_b=text_b)

    def showing(self, rows: pd.DataFrame, classes: list[str]) -> Wording:
        """The same after demonstrations: the rows of a data table in order, each with its answer."""
        shown = [
            self.prompt.format(text_a=row.text_a, text_b=row.text_b)
            + self.answers[classes.index(str(row.label))]
            for row in rows.itertuples()
        ]
        return Wording(self.prompt, self.answers, "".join(text + BETWEEN for text in shown))


def demonstrations(train: pd.DataFrame, shots: int, rng: np.random.Generator) -> pd.DataFrame:
    """`shots` rows of a training table, as many of each class as its share asks for, in random order."""
    drawn = stratified_order(train["label"], rng)[:shots]
    return train.iloc[rng.permutation(drawn)]
