"""The stages that run a model: what their jobs pass through it, and their memory and GPUs.

A stage is a method of `Passes`. Rules ask here while they are planned, so nothing imports torch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import numpy as np

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.runs import PRETRAINED
from headspec.config.study import Study
from headspec.config.variants import KINDS
from headspec.cost.stage import STAGES, Load, Loads, Stage, stage
from headspec.errors import HeadspecError, listing
from headspec.heads.masks import masks
from headspec.tasks.kinds import kind

if TYPE_CHECKING:
    from headspec.cost.workload import Extent

OF_TRAINING, OF_VALIDATION = "tasks.{task}.train_examples", "tasks.{task}.validation_examples"
#: cost of ablating every head alone, relative to a whole pass for each: what comes before is computed once
RESUMED = 0.53


def of(stage: str) -> Stage:
    """The costs of a stage; HeadspecError if it has none here."""
    if stage not in STAGES:
        raise HeadspecError(f"stage {stage!r}: expected one of {listing(STAGES)}, or a new one in {__file__}")
    return STAGES[stage]


def expected_examples(study: Study, sizes: Mapping[str, int], sampling: str) -> dict[str, float]:
    """Expected training examples of each task over all epochs, as drawn by `headspec.training.schedule`."""
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


class Passes:
    """The loads of a job, if it is one of the stage with the name of the method.

    Examples count once per epoch and mask.
    """

    def __init__(self, extent: Extent, wildcards: Mapping[str, str]) -> None:
        self.extent, self.study, self.wildcards = extent, extent.study, wildcards
        self.tasks = extent.layout.mixtures.get(wildcards.get("mixture", ""), ())
        self.method = wildcards.get("method", "")
        self.variant = extent.layout.variants.get(self.method, extent.layout.variants["tuned"])
        self.n_train = {task: size.train for task, size in extent.sizes.items()}
        self.n_validation = {task: size.validation for task, size in extent.sizes.items()}

    # --- training and pruning

    @stage({"prune": OF_TRAINING}, copies=3, vectors=True)
    def features(self) -> Loads:
        yield Load("prune", self.wildcards["task"], self.n_train[self.wildcards["task"]])

    @stage(
        {"train": OF_TRAINING, "prune": OF_TRAINING, "importance": OF_TRAINING},
        copies=5, batch="training", gpus="all", vectors=True,
    )  # fmt: skip
    def train(self) -> Loads:
        """Of frozen runs, what encodes examples anew: their classifiers are negligible.

        Adapters are, too: without gradients of weights, a step passes what importance does.
        """
        trains = self.extent.layout.trains(self.method)
        if trains != "classifiers":
            for load in self._trained(1.0):
                yield load._replace(kind="importance") if trains == "adapters" else load
            return
        drawn = self.study.models[self.wildcards["model"]].weights != PRETRAINED
        for task in self.tasks:
            anew = drawn or not kind(self.study.tasks[task]).pooled
            yield Load("prune", task, anew * self.study.training.frozen.epochs * self.n_train[task])

    def _trained(self, part: float) -> Loads:
        """That part of all training."""
        sizes = {task: self.n_train[task] for task in self.tasks}
        for task, n in expected_examples(self.study, sizes, self.variant.sampling).items():
            yield Load("train", task, part * n)

    @stage({"train": OF_TRAINING, "importance": "importance.samples"}, copies=7, batch="training", gpus="all")
    def branch(self) -> Loads:
        yield from self._trained(self.study.iat.reserve - float(self.wildcards["delta"]))
        yield from self.importance()

    @stage({"train": OF_TRAINING, "importance": "iat.rescorings"}, copies=7, batch="training", gpus="all")
    def retrain(self) -> Loads:
        yield from self._trained(self.variant.delta or 0.0)
        if self.variant.heads and KINDS[self.variant.heads].module == "rescored":
            for load in self.importance():
                yield load._replace(examples=self.study.iat.rescorings * load.examples)

    @stage({"importance": "importance.samples"}, copies=3, gpus="layers")
    def importance(self) -> Loads:
        for task in self.tasks:
            yield Load("importance", task, min(self.study.importance.samples, self.n_train[task]))

    @stage(
        {"prune": f"pruning.draw_examples or {OF_VALIDATION}"},
        copies=3, gpus="layers", writes=True, under_masks=True,
    )  # fmt: skip
    def prune(self) -> Loads:
        pruning = self.study.pruning
        shape = pruning.model_dump(include={"fraction", "fractions", "heads", "draws", "bottom"})
        planned = masks({task: np.zeros((1, 1009)) for task in self.tasks}, seed=0, **shape)
        draws = sum(mask.draw is not None for mask in planned)
        for task in self.tasks:
            n = self.n_validation[task]
            of_draw = min(pruning.draw_examples or n, n)
            yield Load("prune", task, (len(planned) - draws) * n + draws * of_draw)

    @stage(
        {"prune": f"pruning.draws or {OF_VALIDATION}"},
        copies=3, gpus="layers", writes=True, under_masks=True,
    )  # fmt: skip
    def listed(self) -> Loads:
        masks = len(self.study.models[self.wildcards["model"]].heads) * (3 + self.study.list_draws)
        for task in self.tasks:
            yield Load("prune", task, masks * self.n_validation[task])

    # --- gates

    @stage({"train": "gates.epochs"}, copies=5, batch="training", gpus="all")
    def learn_gates(self) -> Loads:
        gates = self.study.gates
        yield from self._gated(self._before() + gates.learning * gates.epochs)

    @stage(
        {"train": "gates.epochs, or name fewer gates.kept, gates.pruning_methods or atlas.rankings",
         "importance": "gates.rescorings", "prune": OF_VALIDATION},
        copies=5, batch="training", gpus="all", writes=True, under_masks=True,
    )  # fmt: skip
    def pruned_run(self) -> Loads:
        """Further training, less the steps that learn_gates has done, and an evaluation."""
        gates, method = self.study.gates, PRUNING_METHODS[self.wildcards["pruning_method"]]
        left = gates.epochs * (1 - gates.learning) if method.open_ended else self._before() + gates.epochs
        yield from self._gated(left)
        if method.chosen == "stepwise":
            for load in self.importance():
                yield load._replace(examples=gates.rescorings * load.examples)
        for task in self.tasks:
            yield Load("prune", task, self.n_validation[task])

    def _gated(self, epochs: float) -> Loads:
        """Training with gates; for those of a frozen encoder, gradients go through it as well."""
        yield from self._trained(epochs / self.study.training.epochs)

    def _before(self) -> int:
        """Epochs that a pruning method which starts from other weights than the trained ones makes up for."""
        return (
            0
            if PRUNING_METHODS[self.wildcards["pruning_method"]].start == "trained"
            else self.study.training.epochs
        )

    # --- similarity

    @stage({"prune": "similarity.samples"}, copies=3)
    def text_embedding(self) -> Loads:
        yield from self._compared("prune", self.study.similarity.samples)

    @stage({"train": "similarity.samples"}, copies=5)
    def sensitivity(self) -> Loads:
        yield from self._compared("train", self.study.similarity.samples)

    @stage({"prune": "similarity.max_sentences"}, copies=4)
    def representations(self) -> Loads:
        """A sentence counts as an example. Stimuli, which are not read here, are left out.

        Weights are in memory once more, as a model is loaded beside the last one.
        """
        if self.wildcards["texts"] == "sentences":
            for load in self._compared("prune", 0):
                yield load._replace(examples=self.study.similarity.max_sentences)

    def _compared(self, kind: str, samples: int) -> Iterator[Load]:
        for task in self.extent.layout.compared:
            if task in self.n_train:
                yield Load(kind, task, min(samples, self.n_train[task]))

    # --- IAT and transfer

    @stage({"prune": OF_VALIDATION}, copies=3, gpus="layers", writes=True, under_masks=True)
    def evaluate(self) -> Loads:
        for task in self.tasks:
            splits = 1 + len(self.study.tasks[task].further)
            yield Load("prune", task, splits * self.n_validation[task])

    @stage({"train": "transfer.steps", "prune": OF_VALIDATION}, copies=6, batch="transfer")
    def transfer(self) -> Loads:
        task, transfer = self.wildcards["task"], self.study.transfer
        full = "full" in transfer.tuning
        fits = transfer.draws * len(transfer.samples)
        yield Load("prune", task, self.n_validation[task] * (1 + fits * full))
        if full:
            trained = sum(transfer.steps * min(transfer.batch_size, n) for n in transfer.samples)
            yield Load("train", task, transfer.draws * trained)

    @stage({}, copies=3, gpus="layers")
    def predict(self) -> Loads:
        """Test sets are not read here."""
        return ()

    # --- probes

    @stage({"prune": "probes.sentences"}, copies=3, also=("probe_pretrained", "probe_random"))
    def probe(self) -> Loads:
        task, sentences = self.wildcards["task"], self.study.probes.sentences
        for n in (self.n_train[task], self.n_validation[task]):
            yield Load("prune", task, min(sentences, n))

    # --- head atlas

    @stage({"prune": "atlas.sentences"}, copies=3, gpus="layers")
    def attended(self) -> Loads:
        """Sentences for roles count as examples of the run's first task."""
        yield Load("prune", self.tasks[0], self.study.atlas.sentences)

    @stage({"prune": "atlas.examples"}, copies=3, gpus="layers")
    def attention(self) -> Loads:
        yield from self._of_atlas("prune", 1)

    @stage({"importance": "atlas.examples"}, copies=3, gpus="layers")
    def relevance(self) -> Loads:
        yield from self._of_atlas("importance", 2)

    @stage({"importance": "atlas.examples"}, copies=3, gpus="layers")
    def measured(self) -> Loads:
        """A measure of one's own: what it passes is not known, and assumed to be what importance passes."""
        yield from self._of_atlas("importance", 1)

    @stage(
        {"prune": "atlas.examples, or leave mean_ablation out of atlas.rankings"},
        copies=3, gpus="layers", writes=True,
    )  # fmt: skip
    def ablation(self) -> Loads:
        heads = self.extent.heads(self.wildcards["model"])
        yield from self._of_atlas("prune", 1 + len(self.study.atlas.ablations) * heads * RESUMED)

    @stage(
        {"prune": "atlas.fractions, atlas.rankings or atlas.examples", "importance": "atlas.fractions"},
        copies=3, gpus="layers", writes=True, under_masks=True,
    )  # fmt: skip
    def cumulative(self) -> Loads:
        atlas = self.study.atlas
        levels = len({*atlas.fractions, self.study.pruning.fraction} - {1.0})
        ends = 1 + atlas.bottom
        others = len(atlas.rankings) * (len(self.tasks) - 1)
        for_all = "importance" in atlas.rankings and len(self.tasks) > 1
        pruned = 2 + levels * (ends * (len(atlas.rankings) + for_all) + atlas.draws) + others
        yield from self._of_atlas("prune", pruned)
        yield from self._of_atlas("importance", ends * levels * ("rescored" in atlas.rankings))

    def _of_atlas(self, kind: str, passes: float) -> Iterator[Load]:
        for task in self.tasks:
            yield Load(kind, task, passes * min(self.study.atlas.examples, self.n_validation[task]))
