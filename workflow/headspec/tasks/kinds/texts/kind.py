"""Classes, scores and sets of labels of texts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import Field

from headspec.errors import listing, nearest
from headspec.tasks import prompt_checks
from headspec.tasks.kind import Kind

if TYPE_CHECKING:
    from headspec.tasks.keys import TaskKeys


class Classification(Kind):
    about = "a class"
    metrics, usual = ("accuracy", "f1", "matthews"), ("accuracy",)
    classes = paired = True

    def problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        """Yield problems with the classes for F1, which is that of the second of two."""
        if task.labels is None:
            if "f1" in task.metrics and task.source:
                yield (
                    f"{key}.labels: missing, expected a list of the two classes, the one that F1 is of "
                    f"second, because {key}.metrics has 'f1'."
                )
            return
        classes = sorted(set(task.labels.values()))
        if len(classes) < 2:
            yield f"{key}.labels: got {listing(classes)}, expected at least two classes."
        elif len(classes) > 2 and "f1" in task.metrics:
            i = task.metrics.index("f1")
            yield f"{key}.metrics.{i}: got 'f1' for {len(classes)} classes, expected accuracy or matthews."

    def prompt_problems(self, key: str, task: TaskKeys) -> Iterator[str]:
        return prompt_checks.class_answer_problems(key, task)


CLASSIFICATION_KIND = Classification()


class Regression(Kind):
    about = "a score"
    metrics, usual = ("pearson", "spearman"), ("spearman", "pearson")


REGRESSION_KIND = Regression()


class Labels(Kind):
    about = "any number of [labels](tasks-and-models.md#several-labels)"
    called = "with several labels"
    metrics = ("micro_f1", "macro_f1", "lrap")
    label_columns = None
    classes = True
    keys = {
        "separator": (
            Annotated[str, Field(min_length=1)] | None,
            Field(
                None,
                description="separator of [several labels](tasks-and-models.md#several-labels) in a cell; by "
                "default a comma, or any joint of names that are labels elsewhere",
            ),
        )
    }
    unused = ("test",)
    refuses = frozenset({"prompted", "transfer"})

    several = ("1 for each label that the text has, else 0", "probability of each label")

    def problems(self, key: str, task: Any) -> Iterator[str]:
        """Yield problems with single labels, and with `labels` that are not the 0/1 columns."""
        columns = task.label if isinstance(task.label, list) else []
        if len(columns) == 1:
            yield (
                f"{key}.label: got the list {listing(columns)}, expected a column of lists of labels, or at "
                "least two columns of 0 and 1."
            )
        if columns and task.separator:
            yield f"{key}.separator: got {task.separator!r}, but {key}.label names columns of 0 and 1."
        if task.labels is None:
            return
        if len({*task.labels.values()}) < 2:
            yield f"{key}.labels: got {listing({*task.labels.values()})}, expected at least two labels."
        for column in columns:
            if column not in task.labels:
                hint = nearest(column, task.labels)
                yield f"{key}.labels: lacks '{column}', a column of {key}.label; add all of these.{hint}"
        if others := [label for label in task.labels if columns and label not in columns]:
            hint = nearest(others[0], columns)
            yield f"{key}.labels: got '{others[0]}', not a column of {key}.label; use its columns.{hint}"


LABELS_KIND = Labels()
