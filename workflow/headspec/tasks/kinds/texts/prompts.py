"""Prompts of texts, followed by answers."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from headspec.errors import HeadspecError, ModelError, shown
from headspec.models import tokenization
from headspec.models.tokenization import around, following, special_tokens
from headspec.tasks.kinds.texts.prompting import Prompt, Prompting
from headspec.tasks.kinds.texts.wording import CONTENT_FREE, Wording, conversation

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pandas as pd
    from transformers import PreTrainedTokenizerBase

    from headspec.config.sections.model import Model
    from headspec.data.prepare import Prepared
    from headspec.tasks.keys import TaskKeys

FIELDS = ("text_a", "text_b")


class Prompts(Prompting):
    """Prompts with classes as answers."""

    def __init__(self, tokenizer: PreTrainedTokenizerBase, wording: Wording, most: int, key: str) -> None:
        super().__init__(tokenizer, wording, most, key)
        if wording.masked and tokenizer.mask_token is None:
            raise ModelError(f"{key}.prompt: got '{{mask}}', for which the model's tokenizer has no token")
        if wording.chat and tokenizer.chat_template is None:
            raise ModelError(
                f"{key}.chat: got true, expected false, because the model's tokenizer has no chat template"
            )
        self.start, self.end = special_tokens(tokenizer)
        self.end = self.end if wording.masked else []  # a continued text has no end token
        self.start = [] if wording.chat else self.start  # the template adds it

    @classmethod
    def answer(cls, wording: Wording, label: str, classes: Sequence[str]) -> str:
        return wording.answers[classes.index(label)]

    def ids(self, text: str) -> list[int]:
        """Return the tokens of a text that the model reads or continues."""
        return around(self.split(text), self.start, self.end)

    def filled(self, text_a: str | None, text_b: str | None, mask: str = "") -> str:
        """Return the text of an example's prompt, with `mask` in place of a masked model's answer."""
        text = self.wording.filled(text_a, text_b, mask)
        return conversation(self.tokenizer, self.wording.turns, text) if self.wording.chat else text

    def split(self, text: str) -> list[int]:
        """Return the tokens of a text alone."""
        tokens: list[int] = self.tokenizer(text, add_special_tokens=False, verbose=False)["input_ids"]
        return tokens

    def prompt(
        self,
        text_a: str | None,
        text_b: str | None,
        answers: Sequence[str] = (),
        where: str = "",
        room: int | None = None,
    ) -> Prompt:
        """Return an example's prompt with the scored `answers`; the longer text is cut first.

        It leaves `room` tokens, by default as many as the longest answer has. Raises ModelError if there are
        too many tokens even without the texts, or an answer has no token of its own.
        """
        texts = {"text_a": text_a, "text_b": text_b}
        ids, cut = self.ids(self._answered(**texts)), False
        if room is None:
            room = max((len(self.split(answer)) for answer in answers), default=0)
        most = self.most - room
        while (excess := len(ids) - most) > 0:
            starts = {name: self._starts(text) for name, text in texts.items()}
            longest = max(FIELDS, key=lambda name: len(starts[name]))
            if not (places := starts[longest]):
                raise ModelError(
                    f"{self.key}.prompt: with {self.key}.shots and without the texts of an example it has "
                    f"{len(ids)} tokens, expected fewer than {most}, which max_length of the model leaves"
                )
            keep = max(0, len(places) - excess)
            texts[longest], cut = (texts[longest] or "")[: places[keep] if keep else 0], True
            ids = self.ids(self._answered(**texts))
        if not self.wording.masked:
            text, where = self._answered(**texts), where or f"{self.key}.answers"
            return Prompt(ids, None, cut, [self.following(text, answer, where) for answer in answers] or None)
        (place,) = self._places(self.wording.answers[0], **texts)
        ids[place] = self.tokenizer.mask_token_id
        return Prompt(ids, [0 if i == place else -1 for i in range(len(ids))], cut)

    def _answered(self, text_a: str | None, text_b: str | None) -> str:
        """Return a prompt; for masked models, with an answer that the mask then replaces."""
        return self.filled(text_a, text_b, self.wording.answers[0] if self.wording.masked else "")

    def _places(self, answer: str, text_a: str | None, text_b: str | None) -> range:
        """Return the range of tokens that overlap an answer in place of the mask."""
        text = self.wording.filled(text_a, text_b, answer)
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        stop = len(text) - len(self.wording.parts(text_a, text_b)[1])
        start = stop - len(answer.lstrip())
        own = [i for i, (a, b) in enumerate(encoded["offset_mapping"]) if a < stop and b > start]
        before = len(around(encoded["input_ids"], self.start)) - len(encoded["input_ids"])
        return range(before + own[0], before + own[-1] + 1)

    def _starts(self, text: str | None) -> list[int]:
        """Return the start of each token of a text."""
        if not isinstance(text, str) or not text:  # nan, as in tables without second texts
            return []
        encoded = self.tokenizer(text, add_special_tokens=False, return_offsets_mapping=True, verbose=False)
        return [start for start, _ in encoded["offset_mapping"]]

    def prompts(self, table: pd.DataFrame, classes: Sequence[str]) -> list[Prompt]:
        return [self.prompt(a, b, self.whole) for a, b in zip(table["text_a"], table["text_b"], strict=True)]

    def encode(self, table: pd.DataFrame, classes: Sequence[str]) -> tuple[pd.DataFrame, int]:
        frame, truncated = super().encode(table, classes)
        tokenization.check_not_empty(frame["example"], frame["input_ids"], f"{self.key}.prompt")
        return frame, truncated

    def content_free(self) -> list[Prompt]:
        """Return prompts whose texts have no content; raise ModelError if one has no tokens."""
        prompts = [self.prompt(text, text, self.whole) for text in CONTENT_FREE]
        if not all(prompt.input_ids for prompt in prompts):
            raise ModelError(
                f"{self.key}.calibration: got true, but {self.key}.prompt has no tokens with an empty text, "
                "because the tokenizer adds no special tokens; expected a prompt with words of its own, or "
                "another model"
            )
        return prompts

    def answers(self, classes: Sequence[str]) -> list[int]:
        """Return the token of each class's answer; empty if answers are scored whole. Raise as `tokens`."""
        tokens = self.tokens(classes)
        return [] if self.whole else [token for (token,) in tokens]

    def tokens(self, classes: Sequence[str]) -> list[list[int]]:
        """Return the tokens of each class's answer; ModelError if they are unknown, joined or repeated."""
        problems: list[HeadspecError] = []
        tokens: list[list[int]] = []
        masked, text = self.wording.masked, self.filled("text", "text")
        for name, answer in zip(classes, self.wording.answers, strict=True):
            where = f"{self.key}.answers.{name}"
            try:
                own = self._filling(answer, where) if masked else self.following(text, answer, where)
            except ModelError as error:
                problems += error.errors
                continue
            if own in tokens:
                problems.append(
                    ModelError(
                        f"{where}: got {answer!r}, the same token as another answer; use a different one"
                    )
                )
            tokens.append(own)
        if problems:
            raise ModelError.combined(problems)
        return tokens

    @cached_property
    def whole(self) -> tuple[str, ...]:
        """The answers of all classes, if scored whole because one has several tokens."""
        answers = self.wording.answers
        several = not self.wording.masked and any(len(tokens) > 1 for tokens in self.tokens(answers))
        return answers if several else ()

    def following(self, prompt: str, answer: str, where: str) -> list[int]:
        """Return the tokens of an answer after a prompt; ModelError if unknown or joined with the prompt."""
        own = following(self.ids, prompt, answer)
        if not own:
            raise self.joined(answer, where, f"the end of the prompt, {shown(prompt[-12:])}")
        self._check_known(answer, own, where, "known tokens")
        return own

    def _filling(self, answer: str, where: str) -> list[int]:
        """Return the token of an answer in place of the mask; ModelError if unknown, joined or not one."""
        parts = []
        for each in dict.fromkeys([self.wording.answers[0], answer]):
            ids, places = self.ids(self.filled("text", "text", each)), self._places(each, "text", "text")
            parts.append((ids[: places.start], ids[places.stop :], ids[places.start : places.stop]))
        *beside, own = parts[-1]
        if beside != list(parts[0][:2]):
            raise self.joined(answer, where, "the words beside {mask}")
        self._check_known(answer, own, where, "one known token", most=1)
        return own

    def joined(self, answer: str, where: str, beside: str) -> ModelError:
        """Return the error for an answer whose first token is not its own."""
        return ModelError(
            f"{where}: got {answer!r}, which the tokenizer joins with {beside}; expected an answer "
            f"that starts its own token, such as {' ' + answer.strip()!r} after a prompt without a space at "
            "its end"
        )

    def _check_known(
        self, answer: str, own: list[int], where: str, expected: str, most: int | None = None
    ) -> None:
        if self.tokenizer.unk_token_id in own or (most and len(own) > most):
            pieces = self.tokenizer.convert_ids_to_tokens(own)
            raise ModelError(
                f"{where}: got {answer!r}, the tokens {shown(pieces)}; expected an answer of {expected}"
            )

    @property
    def scored(self) -> str:
        return f"{self.key}.answers" if self.whole else ""

    def longest_answer(self, prepared: Prepared) -> int:
        """Return the number of tokens of the longest answer."""
        return max(map(len, self.tokens(list(prepared.classes or ()))))

    def problems(
        self, model: Model, model_key: str, task: TaskKeys, prepared: Prepared
    ) -> Iterator[HeadspecError]:
        longest = self.longest_answer(prepared)
        frame = len(self.ids(self.filled("", "" if task.paradigm == "pair" else None)))
        if not frame and not task.shots:
            rows = prepared.validation
            without = rows["example"][(rows["key_a"] == 0) & (rows["key_b"] == 0)]
            try:
                tokenization.check_not_empty(without, [()] * len(without), f"{self.key}.prompt")
            except ModelError as error:
                yield error
        if task.calibration and not task.shots:
            self.content_free()
        least = frame * (1 + task.shots) + longest - 1
        if least >= model.max_length:
            yield ModelError(
                f"{self.key}.prompt: with {task.shots} shots and without texts it has about {least} "
                f"tokens, expected fewer than {model_key}.max_length ({model.max_length})"
            )


PROMPTS = Prompts
