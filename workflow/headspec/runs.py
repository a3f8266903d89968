"""The training runs that a study is made of, and the ways of training that IAT is compared with."""

from __future__ import annotations

from dataclasses import dataclass

#: what a run of the unchanged encoder says where a mixture's name could stand
NO_MIXTURE = "none"


@dataclass(frozen=True)
class Run:
    """One training run: a model, a mixture of tasks, a method and a seed.

    The method is one of `headspec.sections.Method`, or the name of a `Variant`.
    """

    model: str
    mixture: str
    tasks: tuple[str, ...]
    method: str
    seed: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "tasks", tuple(self.tasks))  # a list, where a rule hands it over

    @property
    def path(self) -> str:
        return f"{self.model}/{self.mixture}/{self.method}/seed{self.seed}"


@dataclass(frozen=True)
class Variant:
    """A way of multi-task training that IAT is, or is compared with.

    Attributes
    ----------
    method : its name, and folder
    base : the method of plain training that it goes on from; itself, where it is plain training
    heads : what a task's batches move in the end of training; None for everything (plain training)
    alpha, delta : how many heads, and for how long; None for plain training
    """

    method: str
    base: str
    sampling: str
    heads: str | None = None
    alpha: float | None = None
    delta: float | None = None
