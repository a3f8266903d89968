"""Training of pruned runs: all pruning methods reach their number of heads after the same number of steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from headspec import plugins
from headspec.config.pruning_methods import PruningMethod
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.errors import ConfigError
from headspec.head_arrays import existing
from headspec.heads.masks import Mask, random_by_layer, random_heads
from headspec.heads.pruning import under_masks
from headspec.heads.ranking import joint_importance, prune_count, top_heads
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.encoders import draw
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.registry import require
from headspec.seeds import derive
from headspec.tasks.parts import Classes
from headspec.training.checkpoint import Checkpoint
from headspec.training.gated import Fixed, Learning, Sets, Stepwise, fixed_first
from headspec.training.learnt_gates import LearntGates, Partial, learnt_gates
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.schedule import branch_point, epoch_steps


def count_kept(fraction: float, heads: int, fixed: int = 0) -> int:
    """Return how many heads stay open: `fraction` of `heads`, rounded up, plus all `fixed` heads."""
    return fixed + heads - prune_count(1 - fraction, heads)


def fixed_layers(gates: HeadGates, kinds: Sequence[str]) -> np.ndarray:
    """Return the layers that keep all heads, bool (layers,): those of a kind not in `kinds`, if given."""
    return np.array([bool(kinds) and gates.kind(layer) not in kinds for layer in range(gates.layers)])


def first_of_ranking(
    sets: Sets, maps: dict[str, np.ndarray], count: int, fixed: np.ndarray | bool = False
) -> np.ndarray:
    """Return the first `count` heads of each set, bool (sets, layers, heads).

    `maps` has (layers, heads) per task; the largest values are kept first, and tasks with a common set share
    a map (`joint_importance`). Heads of the layers in `fixed`, bool (layers,), come before all others.
    """
    return np.stack([top_heads(fixed_first(scores, fixed), count) for scores in _joint(sets, maps)])


def _joint(sets: Sets, maps: dict[str, np.ndarray]) -> list[np.ndarray]:
    return [joint_importance([maps[task] for task in tasks]) for tasks in sets.members]


def random_kept(
    sets: Sets,
    maps: dict[str, np.ndarray],
    count: int,
    by_layer: bool,
    seed: int,
    fixed: np.ndarray | bool = False,
) -> np.ndarray:
    """Return `count` random heads of each set, bool (sets, layers, heads); tasks have different heads.

    With `by_layer`, each layer keeps the same number of heads as `first_of_ranking` does by the `maps`.
    Layers in `fixed`, bool (layers,), keep all their heads.
    """
    rngs = [np.random.default_rng(derive(seed, "kept at random", *tasks)) for tasks in sets.members]
    exists = existing(maps[sets.all[0]])
    if by_layer:
        first = first_of_ranking(sets, maps, count, fixed)
        return np.stack([random_by_layer(of, exists, rng) for of, rng in zip(first, rngs, strict=True)])
    kept = exists & np.reshape(fixed, (-1, 1))
    return np.stack([kept | random_heads(exists & ~kept, count - int(kept.sum()), rng) for rng in rngs])


def kept_by_plugin(
    sets: Sets, maps: dict[str, np.ndarray], count: int, function: str, seed: int, fixed: np.ndarray
) -> np.ndarray:
    """Return `count` heads of each set chosen by a plugin, bool (sets, layers, heads).

    `function` names its function (`headspec.plugins.pruning_method`), which receives the importance of the
    layers whose heads can close. Layers in `fixed`, bool (layers,), keep all heads. Raises ConfigError if it
    does not return a bool array of the same shape with the remaining number of heads.
    """
    choose, kept = plugins.function(function), []
    for tasks, importance in zip(sets.members, _joint(sets, maps), strict=True):
        kept_here = existing(importance) & fixed[:, None]
        free, n = importance[~fixed], count - int(kept_here.sum())
        chosen = choose(free, n, np.random.default_rng(derive(seed, choose.__name__, *tasks)))
        plugins.check(chosen, free.shape, function)
        if chosen.dtype != bool or chosen.sum() != n:
            got = f"{chosen.sum()} heads" if chosen.dtype == bool else f"an array of type {chosen.dtype}"
            raise ConfigError(f"{function}: returned {got}, expected {n} heads as bool")
        kept_here[~fixed] = chosen
        kept.append(kept_here)
    return np.stack(kept)


#: values of `PruningMethod.chosen`
CHOSEN = ("all", "copied", "drawn", "learnt", "plugged", "ranked", "stepwise")


def learning_steps(
    examples: dict[str, Examples], training: Training, settings: Gates, start: str
) -> tuple[int, int]:
    """Return the epochs of a run, and the number of steps in which gates learn or heads close.

    A run that does not start from trained weights also includes the steps of training them.
    """
    before = 0 if start == "trained" else training.epochs
    per_epoch = epoch_steps(examples, training.batch_size)
    learning = branch_point(settings.epochs * per_epoch, 1 - settings.learning)
    return before + settings.epochs, before * per_epoch + learning


@dataclass(frozen=True)
class Plan:
    """Which heads a run with gates keeps, and how it learns which.

    Attributes
    ----------
    samples : training examples per task for importance
    exists : bool (layers, heads), the heads of the model
    fixed : bool (layers,), layers that keep all heads
    count : number of heads that each set keeps, including fixed heads; None to keep what the method leaves
        open
    learning : number of steps in which gates learn or heads close
    seed : seed of the run
    """

    pruning_method: PruningMethod
    settings: Gates
    samples: int
    sets: Sets
    exists: np.ndarray
    fixed: np.ndarray
    count: int | None
    learning: int
    seed: int

    def gating(self, maps: dict[str, np.ndarray] | None, copied: np.ndarray | None) -> Fixed | Learning:
        """Return the gates of the run.

        Methods that rank or draw use `maps`, (layers, heads) per task; methods that take the heads of another
        method use `copied`, bool (sets, layers, heads).
        """
        method, count, sets = self.pruning_method, self.count, self.sets
        require("way to choose heads", method.chosen, CHOSEN)
        if method.chosen == "learnt":
            assert method.gates is not None
            gates = [self._learnt(method.gates) for _ in sets.names]
            return Learning(sets, gates, self.learning, count, self.settings.learning_rate, self.seed)
        if method.chosen == "all":
            return Fixed(sets, np.stack([self.exists] * len(sets.names)))
        if method.chosen == "copied":
            assert copied is not None
            return Fixed(sets, copied)
        assert count is not None
        if method.chosen == "stepwise":
            steps = np.linspace(0, self.learning, self.settings.rescorings, endpoint=False).astype(int)
            return Stepwise(sets, self.exists, count, steps.tolist(), self.samples, self.seed, self.fixed)
        assert maps is not None
        if method.chosen == "ranked":
            return Fixed(sets, first_of_ranking(sets, maps, count, self.fixed))
        if method.chosen == "plugged":
            assert method.function is not None
            return Fixed(sets, kept_by_plugin(sets, maps, count, method.function, self.seed, self.fixed))
        return Fixed(sets, random_kept(sets, maps, count, method.by_layer, self.seed, self.fixed))

    def _learnt(self, kind: str) -> LearntGates:
        """Return the gates of a set."""
        fixed = self.exists & self.fixed[:, None]
        free, count = self.exists & ~fixed, self.count
        count = None if count is None else count - int(fixed.sum())
        shape = free.shape if free.all() else (int(free.sum()),)
        gates = learnt_gates(kind, shape, count, self.settings.penalty)
        return gates if free.all() else Partial(gates, free, fixed)


def starting_model(
    job: ModelStage, method: PruningMethod, classes: Mapping[str, Classes], encoder_learns: bool
) -> MultiTask:
    """Return the initial model of a pruning method: trained, pretrained with new classifiers, or untrained.

    Only what the run trains requires gradients: `encoder_learns`, and the method says whether classifiers do.
    Raises ConfigError if there is no such start.
    """
    require("start", method.start, ("trained", "pretrained", "fresh"))
    if method.start == "trained":
        model = job.trained()
    else:
        model = job.pretrained(classes)
        if method.start == "fresh":
            draw(model.encoder, job.seed)
        model.set_beams(job.beams)
    model.classifiers.requires_grad_(method.classifiers)
    model.encoder.requires_grad_(encoder_learns)
    return model


def prepared(
    job: ModelStage, paths: Sequence[str], gates: Gates, training: Training
) -> tuple[MultiTask, Setup, Plan]:
    """Return the model of a job that trains with gates, its set-up and its plan.

    `paths` are the tables of training tokens, `training` is the section of the config; the set-up has the
    epochs of `learning_steps` instead.
    """
    params, wildcards = job.snakemake.params, job.snakemake.wildcards
    method, examples = PruningMethod(label="", **params.method), job.examples(params.tasks, paths)
    epochs, learning = learning_steps(examples, training, gates, method.start)
    training = training.model_copy(update={"epochs": epochs})
    setup = Setup(examples, training, job.seed, job.device, job.microbatches)
    model = starting_model(job, method, job.classes(params.tasks, paths), params.trains == "all")
    sets, exists = Sets(params.tasks, wildcards.scope == "per_task"), model.gates.exists
    fixed = fixed_layers(model.gates, gates.attention)
    count = None
    if (fraction := params.fraction) is not None:
        count = count_kept(fraction, int(exists[~fixed].sum()), int(exists[fixed].sum()))
    samples = params.get("samples", 0)
    return model, setup, Plan(method, gates, samples, sets, exists, fixed, count, learning, job.seed)


@contextmanager
def _gated(model: MultiTask, setup: Setup, gating: Fixed | Learning) -> Iterator[Trainer]:
    """Yield a run with gates before its first step; an encoder without gradients stays frozen."""
    learns = next(model.encoder.parameters()).requires_grad
    with trainer(model, replace(setup, seed=derive(setup.seed, "gates"))) as run:
        model.encoder.requires_grad_(learns)
        run.gating = gating
        yield run


def learn(model: MultiTask, setup: Setup, gating: Learning, checkpoint: Checkpoint) -> dict[str, Any]:
    """Train while gates learn; return the state from which `finish` continues."""
    with _gated(model, setup, gating) as run:
        if interrupted := checkpoint.load():
            run.restore(interrupted)
        run.run(gating.steps, checkpoint)
        return run.state()


def finish(
    model: MultiTask,
    setup: Setup,
    gating: Fixed | Learning,
    state: dict[str, Any] | None,
    checkpoint: Checkpoint,
) -> tuple[np.ndarray, pd.DataFrame]:
    """Train to the end, from the present model or from the `state` that `learn` returned.

    Returns the heads kept, bool (sets, layers, heads), and the table `gates_of_run`.
    """
    with _gated(model, setup, gating) as run:
        if resumed := checkpoint.load() or state:
            run.restore(resumed)
        run.run(len(run.steps), checkpoint)
        if isinstance(gating, Learning):
            gating.warn()
        return gating.kept, gating.frame(len(run.steps), model.gates.exists)


def evaluation(
    model: MultiTask,
    examples: dict[str, Examples],
    rows: dict[str, np.ndarray],
    sets: Sets,
    kept: np.ndarray,
    device: Device,
) -> pd.DataFrame:
    """Return the table `evaluation` of `rows` (n,) of each task, with the heads that its set keeps.

    `kept` is bool (sets, layers, heads).
    """
    model.to(device.name).eval()
    frames = []
    with device.cast():
        for task, task_examples in examples.items():
            exists = model.gates.exists
            closed = exists & ~kept[sets.index(task)]
            mask = Mask(task, None, float(closed.sum() / exists.sum()), None, closed)
            predicted = under_masks(model, task, task_examples, rows[task], [mask], device)
            texts = None if predicted.texts is None else predicted.texts[0]
            frames.append(task_examples.predicted(task, predicted.values[0], texts, rows[task]))
    return pd.concat(frames, ignore_index=True)
