"""Answers that a decoder writes, and the loss of reference answers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch

from headspec.errors import ScoreError, listing
from headspec.progress import log
from headspec.seeds import derive
from headspec.tasks import task_heads
from headspec.tasks.kinds.generation.metrics import METRICS
from headspec.tasks.kinds.generation.scores import SCORES, Scorer
from headspec.tasks.kinds.generation.writing import left_padded, padding, write
from headspec.tasks.kinds.language_modelling.encoding import NONE
from headspec.tasks.kinds.language_modelling.head import Own
from headspec.tasks.task_heads import Gold, Predicted, TaskHead, padded, unless_broken

if TYPE_CHECKING:
    import pandas as pd

    from headspec.models.batching import Batch
    from headspec.models.multitask import MultiTask


@dataclass
class Targets(task_heads.Targets):
    """The answers of a batch.

    `ids` (batch, tokens) are the tokens of reference answers, each at the token that predicts it, else
    `NONE`; `prompts` are the tokens before answers, `references` their texts, `examples` their numbers.
    """

    ids: torch.Tensor
    prompts: list[list[int]]
    references: list[str]
    examples: list[int]

    @classmethod
    def made(
        cls, read: Sequence[list[int]], rows: Sequence[list[int]], references: list[str], examples: list[int]
    ) -> Targets:
        """Return targets from the tokens `read` in each text and, in `rows`, what each of these predicts."""
        starts = [next(i for i, token in enumerate(row) if token != NONE) for row in rows]
        prompts = [ids[: start + 1] for ids, start in zip(read, starts, strict=True)]
        return cls(padded(rows, NONE), prompts, references, examples)


class Written(Own):
    """The model's own head: losses are mean cross-entropies of reference answers, predictions are scores.

    `written` has the example and text of each answer so far; `failed` the first error of the user's score.
    """

    reads_again = True

    def __init__(self, model: MultiTask, classes: dict[str, Any]) -> None:
        super().__init__(model, classes)
        self.asked, self.scorer = classes, Scorer(classes)
        self.written: list[tuple[int, str]] = []
        self.failed: ScoreError | None = None
        self.unstopped, self.told = 0, False

    @classmethod
    def build(cls, model: MultiTask, classes: Any) -> TaskHead:
        return cls(model, classes)

    @classmethod
    def gold(cls, frame: pd.DataFrame) -> Gold:
        read, rows = ([list(ids) for ids in frame[name]] for name in ("input_ids", "targets"))
        references, examples = frame["reference"].tolist(), frame["example"].tolist()
        return Gold(Targets.made, read=read, rows=rows, references=references, examples=examples)

    def losses(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return super().losses(model, states, targets.ids)

    def evidence(self, model: MultiTask, states: torch.Tensor, targets: Any) -> torch.Tensor:
        return super().evidence(model, states, targets.ids)

    def answer(self, model: MultiTask, batch: Batch) -> Predicted:
        return self.predict(model, batch.input_ids, batch.labels)  # which needs no states

    def costs(self, model: MultiTask, batch: Batch) -> torch.Tensor:
        """Return minus the main score of each written answer, (batch,)."""
        return -self.answer(model, batch).values[:, [*METRICS].index(self.asked["metric"])]

    def predict(self, model: MultiTask, states: torch.Tensor, targets: Any = None) -> Predicted:
        """Return the scores of written answers, (batch, metrics), and their texts.

        Scores are means over samples; the last is the variance of the main score between samples. Texts are
        those of the first sample. Scores are nan where the user's own score fails; `settle` raises its error
        when everything is written.
        """
        assert model.head is not None and model.tokenizer is not None
        language = model.head.whole_model(model.encoder)
        rows = [torch.tensor(ids, device=states.device) for ids in targets.prompts]
        prompts = left_padded(rows, padding(language, model.tokenizer))
        asked, samples, main = self.asked, [], [*METRICS].index(self.asked["metric"])
        settings = asked["max_new_tokens"], asked["stop"], asked["temperature"]
        for sample in range(asked["samples"]):
            seed = derive(asked.get("seed", 0), "samples", sample, targets.examples[0])
            samples.append(write(language, model.tokenizer, prompts, *settings, seed))
            self.unstopped += samples[-1].unstopped
            self.written += zip(targets.examples, samples[-1].texts, strict=True)
        values = [
            [self._scores(*each) for each in zip(texts, targets.references, targets.examples, strict=True)]
            for texts, *_ in samples
        ]
        scores = torch.tensor(values, dtype=torch.float64, device=states.device)  # (samples, batch, scores)
        variance = scores[:, :, main].var(0) if len(samples) > 1 else torch.zeros_like(scores[0, :, 0])
        means = torch.cat([scores.mean(0), variance[:, None]], dim=1)
        broken = torch.stack([each.broken for each in samples]).any(0)
        seen = torch.zeros_like(means).masked_fill(broken[:, None], torch.nan)
        return Predicted(unless_broken(means, seen), texts=samples[0].texts)

    def _scores(self, text: str, reference: str, example: int) -> list[float]:
        try:
            return self.scorer.values(text, reference, f" of example {example}")
        except ScoreError as error:
            self.failed = self.failed or error
            return [torch.nan] * (len(SCORES) + 1)

    def settle(self, task: str) -> None:
        """Raise the error of the user's score, with all texts, if it failed; warn if no text was stopped."""
        if self.failed:
            error = ScoreError(f"tasks.{task}.score: {self.failed}")
            error.texts = self.written
            raise error
        never = self.written and self.unstopped == len(self.written) and not self.told
        if never and (stop := self.asked["stop"]):
            self.told = True
            log.warning(
                "tasks.%s.stop: none of %d texts has %s; they end by the model's own end or after %d tokens",
                task, len(self.written), listing(map(repr, stop)), self.asked["max_new_tokens"],
            )  # fmt: skip


HEAD = Written
