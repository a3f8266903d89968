"""Training runs, and the variants of training that IAT is compared with."""

from __future__ import annotations

from dataclasses import dataclass

from headspec.config.as_text import named
from headspec.config.table_values import MEAN, NONE, RANDOM

#: values that tables have in columns of task names, so that no task can have them as its name
RESERVED = (NONE, RANDOM, "random_by_layer", MEAN)
#: the mixture of a run of the unchanged encoder
NO_MIXTURE = "none"
#: whose heads are those that all tasks share
ALL = "all"
#: the method of rows on the unchanged encoder
PRETRAINED = "pretrained"
#: the model of table rows that pool all models
POOLED = "pooled"
#: heads of the variant that is plain training with rewarmed learning rates
REWARMED = "rewarmed"


@dataclass(frozen=True)
class Run:
    """One training run: a model, a mixture of tasks, a method and a seed.

    The method is one of `headspec.config.methods.METHODS`, or the name of a `Variant`.
    """

    model: str
    mixture: str
    tasks: tuple[str, ...]
    method: str
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))  # rules pass a list

    @property
    def path(self) -> str:
        return f"{self.model}/{self.mixture}/{self.method}/seed{self.seed}"


@dataclass(frozen=True)
class PrunedRun:
    """A run that is pruned to a number of heads, and trained on.

    Attributes
    ----------
    pruning_method : how heads are chosen, of `headspec.config.pruning_methods`
    scope : {"shared", "per_task"}, whether all tasks keep the same heads, or each its own
    fraction : of heads to keep; None for those that an open-ended pruning method leaves open
    penalty : at which it leaves them open, if that is another than `gates.penalty`
    """

    run: Run
    pruning_method: str
    scope: str
    fraction: float | None
    penalty: float | None = None

    def __post_init__(self) -> None:
        if isinstance(self.run, dict):  # as rules pass it
            object.__setattr__(self, "run", Run(**self.run))

    @property
    def kept_for(self) -> list[str]:
        """The task of each of its sets of heads, or `all`."""
        return list(self.run.tasks) if self.scope == "per_task" else [ALL]

    @property
    def path(self) -> str:
        """Its folder in that of the runs."""
        more = "" if self.penalty is None else f"-{named(self.penalty)}"
        kept = f"open{more}" if self.fraction is None else named(self.fraction)
        return f"{self.run.path}/gates/{self.pruning_method}/{self.scope}/{kept}"


@dataclass(frozen=True)
class Variant:
    """A variant of multi-task training: IAT, or what it is compared with.

    Attributes
    ----------
    method : its name, also of its folder
    base : the method of plain training that it continues; of plain training, the method itself
    heads : the heads that a task's batches update at the end of training; None: plain training
    alpha, delta : fraction of heads, and of training, for this; None for plain training
    """

    method: str
    base: str
    sampling: str
    heads: str | None = None
    alpha: float | None = None
    delta: float | None = None
