"""Answers that a model writes, compared with those expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import ScoreError, listing, nearest
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs
from headspec.models.pretrained.config_json import positions
from headspec.progress import log
from headspec.seeds import derive
from headspec.tasks.kinds.generation.scores import SCORES, extracted, own
from headspec.tasks.kinds.generation.writing import left_padded, padding, write

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Generated:
    """A metric of the answers that a model writes after `prompts`, for `head_curve` and `joint_knockouts`.

    Texts end at a stop string, at a token that ends texts, or after `max_new_tokens`. Other settings, such as
    top-k, are those of the model's generation config.

    Attributes
    ----------
    score : compares a text with an answer

        - ``exact_match``: they are the same, but for white space around them
        - ``f1``: F1 of their words, as in SQuAD (Rajpurkar et al. 2016)
        - ``contains``: the answer is anywhere in the text
        - ``number``: the last numbers of both have the same value

        or a function of a text, which may be empty, and an answer that returns a number
    max_new_tokens : maximum number of tokens of a text
    stop : strings that end a text; they are not part of it
    pattern : a regular expression; the first group of its last match, or the match if it has no group, stands
        for a text and, unless `score` is a function, for an answer. A text without a match is empty, and an
        answer without one is compared as a whole.
    temperature : 0 writes the most likely token; above, tokens are drawn
    samples : number of texts for each prompt, whose mean is its value; several need a temperature
    references : what texts are compared with, instead of `answers`: one for each prompt; a function takes
        any objects, other scores texts
    seed : of samples, the same for all sets of heads

    Raises
    ------
    ValueError
        Settings do not fit together. Where a function fails on a text, functions that take this metric raise
        `headspec.errors.ScoreError`, which names the example; its `texts` are (example, text) of all so far.

    Examples
    --------
    >>> metric = headspec.Generated("number", max_new_tokens=200, stop=["Question:"])
    >>> curve = headspec.head_curve(
    ...     model, tokenizer=tokenizer, prompts=prompts, answers=answers, metric=metric
    ... )
    """

    score: str | Callable[[str, Any], float] = "exact_match"
    max_new_tokens: int = 32
    stop: Sequence[str] = ()
    pattern: str | None = None
    temperature: float = 0.0
    samples: int = 1
    references: Sequence[Any] | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not callable(self.score) and self.score not in SCORES:
            hint = nearest(self.score, SCORES)
            raise ValueError(
                f"score: got {self.score!r}, expected {listing(SCORES)} or a function of a text and an "
                f"answer.{hint}"
            )
        for name, least in (("max_new_tokens", 1), ("samples", 1)):
            if getattr(self, name) < least:
                raise ValueError(f"{name}: got {getattr(self, name)}, expected at least {least}")
        listed = isinstance(self.stop, Sequence) and not isinstance(self.stop, str)
        if not listed or not all(isinstance(each, str) and each for each in self.stop):
            raise ValueError(f"stop: got {self.stop!r}, expected a list of texts")
        if self.temperature < 0 or (self.samples > 1) > (self.temperature > 0):
            expected = "above 0 for several samples" if self.samples > 1 else "at least 0"
            raise ValueError(f"temperature: got {self.temperature:g}, expected a value {expected}")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"pattern: got {self.pattern!r}, not a regular expression: {error}") from None

    @property
    def name(self) -> str:
        """The name of the score."""
        return self.score if isinstance(self.score, str) else getattr(self.score, "__name__", "score")

    def check(self, reference: Any, example: int) -> None:
        """Raise ValueError if the score takes no such reference; a function is tried with the first."""
        if not isinstance(self.score, str):
            if example == 0:
                self.value("", reference)
            return
        if not isinstance(reference, str):
            raise ValueError(f"references: got {reference!r} for example {example}, expected a text")
        try:
            self.value("", reference)
        except ValueError as error:
            raise ValueError(f"references: {error}, of example {example}; expected one") from None

    def value(self, text: str, reference: Any, example: int | None = None) -> float:
        """Return the score of a text of an example. Raises ScoreError if a function fails."""
        if isinstance(self.score, str):
            found = extracted(text, self.pattern)
            expected = extracted(reference, self.pattern)
            return SCORES[self.score](found or "", reference if expected is None else expected)
        compared = text if self.pattern is None else extracted(text, self.pattern) or ""
        where = "" if example is None else f" of example {example}"
        return own(self.score, f"metric: {self.name}", compared, reference, where)


class Writing:
    """Texts that a model writes after the prompts of batches, whose labels are answers.

    Parameters
    ----------
    batches : as `text_batches.made` makes them
    answers, numbers : the answers of all examples, and the numbers of the examples in `batches`

    Attributes
    ----------
    texts : texts of the last call of `values`, a list for each sample
    written : pairs (example, text) of all calls, in order

    Raises
    ------
    ValueError
        The model cannot write, something is missing, references do not fit, or texts would be too long.
    """

    def __init__(
        self,
        metric: Generated,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase | None,
        batches: Sequence[Inputs],
        answers: Sequence[Any] | None,
        numbers: NDArray[np.int_],
    ) -> None:
        if tokenizer is None or answers is None:
            raise ValueError("metric: got Generated, which needs tokenizer, prompts and answers")
        if not model.can_generate():
            raise ValueError(f"metric: got Generated for {type(model).__name__}, which cannot generate text")
        expected = answers if metric.references is None else metric.references
        if len(expected) != len(answers):
            raise ValueError(
                f"references: got {len(expected)}, expected {len(answers)}, one for each of prompts"
            )
        for i, reference in enumerate(expected):
            metric.check(reference, i)
        self.metric, self.model, self.tokenizer = metric, model, tokenizer
        self.texts: list[list[str]] = []
        self.written: list[tuple[int, str]] = []
        self.pad = padding(model, tokenizer)
        self.prompts = [self._prompts(batch) for batch in batches]
        ends = np.cumsum([0, *(len(prompts["input_ids"]) for prompts in self.prompts)])
        parts = [numbers[start:stop].tolist() for start, stop in zip(ends, ends[1:], strict=False)]
        self.expected = [[(int(i), expected[i]) for i in part] for part in parts]
        self._unstopped = 0

    def _prompts(self, batch: Inputs) -> dict[str, torch.Tensor]:
        """Return the prompts of a batch, padded at their beginning; raises as `_fits`."""
        ids, mask = batch["input_ids"], batch["attention_mask"].bool()
        if self.model.config.is_encoder_decoder:
            self._fits(1)
            return {"input_ids": ids, "attention_mask": mask.long()}
        rows = [row[real & (labels == IGNORED)]
                for row, real, labels in zip(ids, mask, batch[LABELS], strict=True)]  # fmt: skip
        self._fits(max(map(len, rows)))
        return left_padded(rows, self.pad)

    def _fits(self, tokens: int) -> None:
        """Raise ValueError if the model cannot take `max_new_tokens` after so many tokens."""
        most = positions(self.model.config.get_text_config().to_dict())
        if most and tokens + self.metric.max_new_tokens > most:
            raise ValueError(
                f"max_new_tokens: got {self.metric.max_new_tokens} after a prompt of {tokens} tokens; the "
                f"model takes at most {most}"
            )

    def values(self, number: int, part: slice) -> torch.Tensor:
        """Return the values of part of a batch by its number, (n,); the model writes with its present gates.

        Raises ScoreError, with all texts written so far, if the score fails.
        """
        self.texts = [self._texts(number, sample, part) for sample in range(self.metric.samples)]
        expected = self.expected[number][part]
        for texts in self.texts:
            self.written += [(i, text) for text, (i, _) in zip(texts, expected, strict=True)]
        try:
            values = [
                [self.metric.value(text, reference, i)
                 for text, (i, reference) in zip(texts, expected, strict=True)]
                for texts in self.texts
            ]  # fmt: skip
        except ScoreError as error:
            error.texts = self.written
            raise
        return torch.tensor(values, dtype=torch.float64).mean(0)

    def _texts(self, number: int, sample: int, part: slice) -> list[str]:
        metric, prompts = self.metric, {name: each[part] for name, each in self.prompts[number].items()}
        seed = derive(metric.seed, "generated", number, sample, *filter(None, [part.start]))
        settings = metric.max_new_tokens, metric.stop, metric.temperature, seed
        texts, unstopped, _ = write(self.model, self.tokenizer, prompts, *settings)
        self._unstopped += unstopped
        return texts

    def warn(self) -> None:
        """Warn if there are stop strings and no text so far had one."""
        if self.metric.stop and self._unstopped == len(self.written):
            log.warning(
                "metric: none of %d texts has %s; they end by the model's own end or after %d tokens",
                len(self.written), listing(map(repr, self.metric.stop)), self.metric.max_new_tokens,
            )  # fmt: skip

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest value of the score; None for a function."""
        return (0.0, 1.0) if isinstance(self.metric.score, str) else None
