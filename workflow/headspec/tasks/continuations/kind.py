"""What kinds of tasks share in which one of two continuations should be the likelier."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


class Pairs(Kind):
    metrics = ("pair_accuracy", "logit_difference")
    trained = needs_prompt = pooled = False
    refuses = frozenset({"transfer"})

    def problems(self, key: str, task: Task) -> Iterator[str]:
        """A difference of logits has no scale on which models could be compared."""
        if task.all_metrics[0] == "logit_difference":
            yield (
                f"{key}.metrics.0: got 'logit_difference', which has no scale; expected pair_accuracy first."
            )
