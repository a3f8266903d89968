"""Training runs, and the variants of training that IAT is compared with."""

from dataclasses import dataclass

from headspec.config.values import MEAN, NONE, RANDOM
from headspec.text_values import named

#: folder of a training run, with wildcards, in the folder of results
RUN = "runs/{model}/{mixture}/{method}/seed{seed}"
#: folder of a run pruned to a number of heads
PRUNED_RUN = RUN + "/gates/{pruning_method}/{scope}/{kept}"
#: reserved values in columns of task names, which no task can have
RESERVED = (NONE, RANDOM, "random_by_layer", MEAN)
#: mixture of a run of the unchanged encoder
NO_MIXTURE = "none"
#: `kept` in the path of a pruned run that keeps the heads that its method leaves open
OPEN = "open"
#: represents heads that all tasks share
ALL = "all"
#: method in rows on the unchanged encoder
PRETRAINED = "pretrained"
#: model in table rows that pool all models
POOLED = "pooled"
#: the retraining that is plain training with rewarmed learning rates
REWARMED = "rewarmed"


@dataclass(frozen=True)
class Run:
    """A run; its method is in `headspec.config.methods.METHODS`, the name of a `Variant`, or `PRETRAINED`."""

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
    """A run that is pruned to a number of heads and trained further."""

    run: Run
    pruning_method: str  #: of `headspec.config.pruning_methods`
    scope: str  #: {"shared", "per_task"}: all tasks keep the same heads, or each its own
    fraction: float | None  #: of heads to keep; None for as many as an open-ended pruning method leaves open
    penalty: float | None = None  #: penalty of the open-ended method, if it is not `gates.penalty`

    def __post_init__(self) -> None:
        if isinstance(self.run, dict):  # as rules pass it
            object.__setattr__(self, "run", Run(**self.run))

    @property
    def kept_for(self) -> list[str]:
        """The task of each set of heads, or `all`."""
        return list(self.run.tasks) if self.scope == "per_task" else [ALL]

    @property
    def path(self) -> str:
        """Its folder, relative to the folder of runs; `kept_fraction` and `penalty` read its last part."""
        more = "" if self.penalty is None else f"-{named(self.penalty)}"
        kept = f"{OPEN}{more}" if self.fraction is None else named(self.fraction)
        return f"{self.run.path}/gates/{self.pruning_method}/{self.scope}/{kept}"


def kept_fraction(kept: str) -> float | None:
    """Return the fraction of heads to keep; None for as many as a method leaves open."""
    return None if kept.startswith(OPEN) else float(kept)


def penalty(kept: str) -> float | None:
    """Return the penalty of an open-ended method; None for `gates.penalty`."""
    return float(kept.removeprefix(f"{OPEN}-")) if kept.startswith(f"{OPEN}-") else None


@dataclass(frozen=True)
class Variant:
    """A variant of multi-task training: IAT, or what it is compared with."""

    method: str  #: its name, also of its folder
    base: str  #: the method of plain training that it continues; plain training names itself
    sampling: str
    #: how training ends, of `headspec.config.variants.RETRAININGS`; None: plain training
    retraining: str | None = None
    alpha: float | None = None  #: fraction of heads that a task owns; None if the variant has none
    delta: float | None = None  #: last fraction of training, where variants differ; None for plain training
