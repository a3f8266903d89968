"""Passes through a model, the unit of cost of a stage's jobs.

In `headspec.cost.stages`, one function per stage, decorated by `stage`, lists the passes of a job. Rules read
them during planning, so nothing here imports torch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from headspec.config.runs import Variant

if TYPE_CHECKING:
    from headspec.config.study import Study
    from headspec.pipeline.layout import Layout


#: passes: operations per example, relative to a forward pass
PASSES = {"train": 3, "importance": 2, "prune": 1}
#: purpose of the tokens that decoders write, one after another, and all purposes
WRITE = "write"
PURPOSES = (*PASSES, WRITE)
#: seconds to start a job that runs a model, and any other job, if not measured
STARTS = 6.0, 3.0
#: settings that reduce the passes of a task
TRAINING, VALIDATION = "tasks.{task}.train_examples", "tasks.{task}.validation_examples"


class Load(NamedTuple):
    """Examples of a task that a job passes through the model, once per epoch and mask."""

    purpose: str  #: of `PURPOSES`; `prune` also for the prompts of `write`
    task: str
    examples: float


@dataclass(frozen=True)
class StageJob:
    """A job of a stage that runs a model, with training and validation examples of each task."""

    study: Study
    layout: Layout
    wildcards: Mapping[str, str]
    n_train: Mapping[str, int]
    n_validation: Mapping[str, int]
    #: number of heads of the model by name
    heads: Callable[[str], int]

    @property
    def tasks(self) -> tuple[str, ...]:
        return tuple(self.layout.study.tasks_by_mixture.get(self.wildcards.get("mixture", ""), ()))

    @property
    def method(self) -> str:
        return self.wildcards.get("method", "")

    @property
    def variant(self) -> Variant:
        variants = self.layout.study.variants
        return variants.get(self.method, variants[self.layout.study.plain_method])

    def trained(self, part: float) -> list[Load]:
        """Return a fraction `part` of the run's training.

        With adapters, without weight gradients, a step costs as much as importance.
        """
        purpose = "importance" if self.layout.study.trains(self.method) == "adapters" else "train"
        sizes = {task: self.n_train[task] for task in self.tasks}
        expected = expected_examples(self.study, sizes, self.variant.sampling)
        return [Load(purpose, task, part * n) for task, n in expected.items()]

    def validated(self, times: float = 1, most: int | None = None, purpose: str = "prune") -> list[Load]:
        """Return `times` passes over each task's validation examples, or the first `most` of them."""
        sizes = {task: self.n_validation[task] for task in self.tasks}
        return [Load(purpose, task, times * min(most or n, n)) for task, n in sizes.items()]


def expected_examples(study: Study, sizes: Mapping[str, int], sampling: str) -> dict[str, float]:
    """Return the expected training examples of each task over all epochs (`headspec.training.schedule`)."""
    training = study.training
    if sampling == "proportional":
        return {task: float(training.epochs * n) for task, n in sizes.items()}
    steps = np.array([-(-n // training.batch_size) for n in sizes.values()])
    epochs = np.arange(training.epochs)
    powers = 1 - 0.8 * epochs / max(training.epochs - 1, 1)
    if sampling == "sqrt":
        powers = np.full(training.epochs, 0.5)
    weights = steps[None] ** powers[:, None]  # (epochs, tasks)
    drawn = steps.sum() * (weights / weights.sum(1, keepdims=True)).sum(0)
    return {task: d * n / s for (task, n), d, s in zip(sizes.items(), drawn, steps, strict=True)}


@dataclass(frozen=True)
class Stage:
    """Costs of a stage that runs a model.

    Attributes
    ----------
    loads : passes of a job
    reduced_by : kind of pass: the setting that reduces it
    copies : copies of the weights in memory. Without training, they are read twice; training has four
        (weights, gradients, two moments), and a fifth for the words in use; a state to continue from, or the
        encoder to restart from, is extra
    hours : time that a job requests if its operations are unknown
    adapted : copies in a run that trains adapters, which are a hundredth of the weights
    batch : section with the batch size of its training
    gpus : `one`; `all`, a process on each of the model's GPUs; or `layers`, the GPUs that hold a prompted
        model's layers
    writes : whether its model writes texts, after any training
    under_masks : whether it evaluates by `headspec.heads.pruning.under_masks`
    vectors : `task` or `mixture` whose training vectors, for frozen runs, a job holds
    held : bytes that a job holds besides weights and activations
    keeps : what it leaves on disk besides models and tables: vectors, or a state of training
    """

    loads: Callable[[StageJob], Iterable[Load]]
    reduced_by: Mapping[str, str]
    copies: int
    hours: int
    adapted: int | None = None
    batch: Literal["", "training", "transfer"] = ""
    gpus: Literal["one", "all", "layers"] = "one"
    writes: bool = False
    under_masks: bool = False
    vectors: Literal["", "task", "mixture"] = ""
    held: Callable[[Study], float] = lambda study: 0.0
    keeps: Literal["", "vectors", "state"] = ""

    @property
    def backward(self) -> bool:
        """Whether there is a backward pass, which needs stored activations."""
        return not {*self.reduced_by} <= {"prune"}


#: costs by stage
STAGES: dict[str, Stage] = {}


def stage(
    reduced_by: Mapping[str, str], copies: int, hours: int, also: Iterable[str] = (), **settings: Any
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return a decorator that registers a function as `Stage.loads` of the stage of its name, and of `also`.

    The other arguments are attributes of `Stage`.
    """

    def register(loads: Callable[..., Any]) -> Callable[..., Any]:
        STAGES.update(
            dict.fromkeys([loads.__name__, *also], Stage(loads, reduced_by, copies, hours, **settings))
        )
        return loads

    return register
