"""Answers that a model writes, compared with those expected."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from headspec.errors import listing, nearest
from headspec.heads.any_model.batches import IGNORED, LABELS, Inputs
from headspec.heads.any_model.text_scores import SCORES, before, extracted
from headspec.models.pretrained.config_json import positions
from headspec.progress import log
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Generated:
    """A metric of the answers that a model writes after `prompts`, for `head_curve`.

    Texts end at a stop string, a token that ends texts, or after `max_new_tokens`. Other settings, such as
    top-k, are those of the model's generation config.

    Attributes
    ----------
    score : compares a text with an answer

        - ``exact_match``: the same, but for white space around them
        - ``f1``: of words, as in SQuAD (Rajpurkar et al. 2016)
        - ``contains``: the answer is anywhere in the text
        - ``number``: the last numbers of both have the same value

        or a function of a text, which may be empty, and an answer that returns a number
    max_new_tokens : of a text
    stop : strings that end a text; they are no part of it
    pattern : a regular expression; instead of texts and answers, the first group of its last match in them
        is compared: an answer without a match as a whole, a text without one as empty
    temperature : 0 writes the most likely token; above, tokens are drawn
    samples : texts for each prompt, whose mean is its value; with a temperature
    references : what texts are compared with, instead of `answers`: one for each prompt, for a function of
        anything
    seed : of samples, the same for all sets of heads

    Raises
    ------
    ValueError
        Settings do not fit together.

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
        if isinstance(self.stop, str) or not all(self.stop):
            raise ValueError(f"stop: got {self.stop!r}, expected a list of texts")
        if self.temperature < 0 or (self.samples > 1) > (self.temperature > 0):
            expected = "above 0 for several samples" if self.samples > 1 else "at least 0"
            raise ValueError(f"temperature: got {self.temperature:g}, expected one {expected}")
        try:
            re.compile(self.pattern or "")
        except re.error as error:
            raise ValueError(f"pattern: got {self.pattern!r}, no regular expression: {error}") from None

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

    def value(self, text: str, reference: Any) -> float:
        """Return the score of a text; ValueError if the function raises, or returns no number."""
        if isinstance(self.score, str):
            found = extracted(text, self.pattern)
            expected = extracted(reference, self.pattern)
            return SCORES[self.score](found or "", reference if expected is None else expected)
        shown = f"for the text {text!r} and the answer {reference!r}"
        try:
            value = self.score(
                text if self.pattern is None else extracted(text, self.pattern) or "", reference
            )
        except Exception as error:  # the user's code
            raise ValueError(
                f"metric: {self.name} raised {type(error).__name__}: {error}, {shown}"
            ) from error
        try:
            return float(value)
        except (TypeError, ValueError):
            raise ValueError(f"metric: {self.name} returned {value!r} {shown}, expected a number") from None


class Writing:
    """What a model writes after the prompts of batches, whose labels are answers.

    Parameters
    ----------
    batches : as `text_batches.made` makes them
    answers, numbers : those of all examples, and the numbers of the examples in `batches`

    Attributes
    ----------
    texts : of the last call of `values`, a list for each sample
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
            raise ValueError("metric: got Generated without tokenizer, prompts and answers; expected them")
        if not model.can_generate():
            raise ValueError(f"metric: got Generated for {type(model).__name__}, which writes no texts")
        expected = answers if metric.references is None else metric.references
        if len(expected) != len(answers):
            raise ValueError(
                f"references: got {len(expected)}, expected {len(answers)}, one for each of prompts"
            )
        for i, reference in enumerate(expected):
            metric.check(reference, i)
        self.metric, self.model, self.tokenizer = metric, model, tokenizer
        self.texts: list[list[str]] = []
        config = model.generation_config
        pads = (tokenizer.pad_token_id, config.pad_token_id, tokenizer.eos_token_id, 0)
        self.pad = next(int(pad) for pad in pads if pad is not None)
        self.prompts = [self._prompts(batch) for batch in batches]
        ends = np.cumsum([0, *(len(prompts["input_ids"]) for prompts in self.prompts)])
        parts = [numbers[start:stop].tolist() for start, stop in zip(ends, ends[1:], strict=False)]
        self.references = [[expected[i] for i in part] for part in parts]
        self._open = self._written = 0

    def _prompts(self, batch: Inputs) -> dict[str, torch.Tensor]:
        """Return the prompts of a batch, padded at their beginning; raises as `_fits`."""
        ids, mask = batch["input_ids"], batch["attention_mask"].bool()
        if self.model.config.is_encoder_decoder:
            self._fits(1)
            return {"input_ids": ids, "attention_mask": mask.long()}
        rows = [row[real & (labels == IGNORED)]
                for row, real, labels in zip(ids, mask, batch[LABELS], strict=True)]  # fmt: skip
        longest = max(map(len, rows))
        self._fits(longest)
        padded = [torch.nn.functional.pad(row, (longest - len(row), 0), value=self.pad) for row in rows]
        reals = [torch.arange(longest, device=ids.device) >= longest - len(row) for row in rows]
        return {"input_ids": torch.stack(padded), "attention_mask": torch.stack(reals).long()}

    def _fits(self, tokens: int) -> None:
        """Raise ValueError if texts do not fit after so many tokens."""
        most = positions(self.model.config.get_text_config().to_dict())
        if most and tokens + self.metric.max_new_tokens > most:
            raise ValueError(
                f"max_new_tokens: got {self.metric.max_new_tokens} after a prompt of {tokens} tokens; the "
                f"model takes at most {most}"
            )

    def values(self, number: int) -> torch.Tensor:
        """Return the values of a batch by its number, (n,); the model writes with the gates of now."""
        self.texts = [self._texts(number, sample) for sample in range(self.metric.samples)]
        return torch.tensor(
            [[self.metric.value(*pair) for pair in zip(texts, self.references[number], strict=True)]
             for texts in self.texts], dtype=torch.float64,
        ).mean(0)  # fmt: skip

    def _texts(self, number: int, sample: int) -> list[str]:
        metric, prompts = self.metric, self.prompts[number]
        settings: dict[str, Any] = {"do_sample": metric.temperature > 0, "num_beams": 1}
        if metric.temperature:
            settings["temperature"] = metric.temperature
        if metric.stop:
            settings["stopping_criteria"] = [self._stopped(prompts["input_ids"].shape[1])]
        devices = [prompts["input_ids"].device] if prompts["input_ids"].is_cuda else []
        with torch.random.fork_rng(devices):
            torch.manual_seed(derive(metric.seed, "generated", number, sample))
            found = self.model.generate(
                **prompts, max_new_tokens=metric.max_new_tokens, pad_token_id=self.pad, **settings
            )
        whole = self._decoded(found, prompts["input_ids"].shape[1])
        texts = [before(text, metric.stop) for text in whole]
        self._written += len(texts)
        self._open += sum(text == each for text, each in zip(texts, whole, strict=True))
        return texts

    def _decoded(self, ids: torch.Tensor, prompt: int) -> list[str]:
        """Return the texts of tokens, (n, tokens), which begin with a decoder's prompts."""
        own = ids if self.model.config.is_encoder_decoder else ids[:, prompt:]
        texts: list[str] = self.tokenizer.batch_decode(own, skip_special_tokens=True)
        return texts

    def _stopped(self, prompt: int) -> Callable[..., torch.Tensor]:
        """Return what tells which texts have a stop string (transformers' own fails for some tokenizers)."""

        def stopped(ids: torch.Tensor, _: Any, **__: Any) -> torch.Tensor:
            texts = self._decoded(ids, prompt)
            found = [any(each in text for each in self.metric.stop) for text in texts]
            return torch.tensor(found, device=ids.device)

        return stopped

    def warn(self) -> None:
        """Warn if no text so far had a stop string."""
        if self.metric.stop and self._open == self._written:
            log.warning(
                "metric: none of %d texts has %s; they end by the model's own end or after %d tokens",
                self._written, listing(map(repr, self.metric.stop)), self.metric.max_new_tokens,
            )  # fmt: skip

    @property
    def bounds(self) -> tuple[float, float] | None:
        """Lowest and highest value of the score; None for a function."""
        return (0.0, 1.0) if isinstance(self.metric.score, str) else None
