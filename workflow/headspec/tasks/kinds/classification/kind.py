"""Classes of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from headspec.errors import listing
from headspec.tasks import prompt_keys
from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.config.sections.task import Task


class Classification(Kind):
    about = "a class"
    metrics, usual = ("accuracy", "f1", "matthews"), ("accuracy",)
    classes = paired = True

    def problems(self, key: str, task: Task) -> Iterator[str]:
        """Yield problems of F1 with these classes; F1 is for the second of two."""
        if task.labels is None:
            if "f1" in self.all_metrics(task) and task.source:
                yield (
                    f"{key}.labels: missing, expected a list of the two classes, the one that F1 is of "
                    f"second, because {key}.metrics has 'f1'."
                )
            return
        classes = sorted(set(task.labels.values()))
        if len(classes) < 2:
            yield f"{key}.labels: got {listing(classes)}, expected at least two classes."
        elif len(classes) > 2 and "f1" in self.all_metrics(task):
            i = self.all_metrics(task).index("f1")
            yield f"{key}.metrics.{i}: got 'f1' for {len(classes)} classes, expected accuracy or matthews."

    def prompt_problems(self, key: str, task: Task) -> Iterator[str]:
        return prompt_keys.class_answers(key, task)


KIND = Classification()
