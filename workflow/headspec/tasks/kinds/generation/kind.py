"""Answers that a decoder writes after a prompt."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Annotated, Any

from pydantic import Field

from headspec.errors import listing, nearest
from headspec.tasks import prompt_checks
from headspec.tasks.kind import Kind
from headspec.tasks.text_scores import OWN

#: metric of the user's own score, and that of numbers
OWN_METRIC, NUMBER = "generated_score", "generated_number"
#: metric of how samples of an example differ
VARIANCE = "generated_variance"
#: end of an answer that is no turn of a conversation, as between demonstrations
BLANK_LINE = "\n\n"


class Generation(Kind):
    about = "the [answer that a decoder writes](tasks-and-models.md#written-answers), for `prompted`"
    called = "of generation"
    metrics = (
        "generated_exact_match", "generated_f1", "generated_contains", NUMBER, OWN_METRIC, VARIANCE,
    )  # fmt: skip
    beside = frozenset({VARIANCE})  # it is no better if higher
    usual = ("generated_exact_match",)
    several = (
        "`prediction_values` of the best constant answer, for each metric",
        "exact match, F1, containment, equal numbers, and the user's own score, each a mean over samples; "
        "variance of the main one between samples",
    )
    defaults = {"label": "answer"}
    keys = {
        "max_new_tokens": (
            int,
            Field(32, ge=1, description="of generation: maximum tokens of an answer"),
        ),
        "stop": (
            list[Annotated[str, Field(min_length=1)]] | None,
            Field(
                None,
                description="of generation: texts that end an answer; by default a blank line, with `chat` "
                "none",
            ),
        ),
        "temperature": (
            float,
            Field(
                0.0,
                ge=0,
                description="of generation: 0 writes the most likely token; above, tokens are drawn, other "
                "ones for each seed",
            ),
        ),
        "samples": (
            int,
            Field(
                1,
                ge=1,
                description="of generation: texts after each prompt, whose mean score is the example's; "
                "several need a `temperature`",
            ),
        ),
        "pattern": (
            str | None,
            Field(
                None,
                description="of generation: regular expression; the first group of its last match in an "
                "answer is compared, instead of all of it",
            ),
        ),
        "target_delimiter": (
            str,
            Field(" ", description="of generation: text between a prompt and its answer, without `chat`"),
        ),
        "score": (
            str | None,
            Field(
                None,
                description="of generation: the score that a [plugin](code/extending.md#a-plugin) declares, "
                "for the metric `generated_score`",
            ),
        ),
    }
    evaluated = (
        "max_new_tokens", "stop", "temperature", "samples", "pattern", "target_delimiter", "score",
    )  # fmt: skip
    unused = ("labels", "test")
    refuses = frozenset({"transfer"})
    trained = pooled = False
    generates = True

    def problems(self, key: str, task: Any) -> Iterator[str]:
        """Yield problems with what is compared."""
        try:
            re.compile(task.pattern or "")
        except re.error as error:
            yield f"{key}.pattern: got {task.pattern!r}, expected a regular expression: {error}."
        if task.score is not None and task.score not in OWN:
            known = f"one of {listing(OWN)}" if OWN else "a name that a plugin declares by @text_score"
            yield f"{key}.score: got '{task.score}', expected {known}.{nearest(task.score, OWN)}"
        if (task.score is None) == (OWN_METRIC in task.metrics):
            got, expected = ("none", "the name of a score") if task.score is None else (f"'{task.score}'", "")
            yield (
                f"{key}.score: got {got}, expected {expected or 'none'} with {key}.metrics "
                f"{listing(task.metrics)}."
            )

        if task.samples > 1 and not task.temperature:
            yield f"{key}.temperature: got 0, expected a value above 0, so that {key}.samples differ."
        if VARIANCE in task.metrics and task.samples == 1:
            yield f"{key}.samples: got 1, expected at least 2 with {key}.metrics {VARIANCE}."

    def prompt_problems(self, key: str, task: Any) -> Iterator[str]:
        if task.prompt is None:
            yield f"{key}.prompt: missing, expected the text that answers follow."
            return
        yield from prompt_checks.fields(key, task)
        if prompt_checks.masked(task.prompt):
            yield f"{key}.prompt: got the field '{{mask}}', which no task of {task.type} has; remove it."
        yield from prompt_checks.unused(key, task, "answers", "calibration")
        if task.chat and "target_delimiter" in task.model_fields_set:
            yield f"{key}.target_delimiter: has no effect with {key}.chat; remove it."

    def asked(self, task: Any) -> dict[str, Any]:
        stop = task.stop
        if stop is None:
            stop = [] if task.chat else [BLANK_LINE]
        return {
            "max_new_tokens": task.max_new_tokens, "stop": stop, "pattern": task.pattern,
            "target_delimiter": "" if task.chat else task.target_delimiter,
            "score": OWN[task.score] if task.score else None, "numbers": NUMBER in task.metrics,
            "metric": task.metrics[0], "temperature": task.temperature, "samples": task.samples,
        }  # fmt: skip

    def functions(self, task: Any) -> list[str]:
        return [OWN[task.score]] if task.score else []

    def new_tokens(self, task: Any) -> int:
        return int(task.max_new_tokens)

    def texts(self, task: Any) -> int:
        return int(task.samples)


KIND = Generation()
