"""The study: models x mixtures of tasks x methods x seeds, and the runs that it is made of.

Reading a config into it, with messages for a user, is in `headspec.validation`.
"""

from __future__ import annotations

import itertools
from dataclasses import asdict
from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from headspec.fields import Count, Distinct, Name, Seed
from headspec.runs import NO_MIXTURE, Run, Variant
from headspec.sections import (
    IAT,
    Brain,
    Dissociation,
    Figures,
    Importance,
    Method,
    Mixtures,
    Model,
    Pruning,
    Section,
    Similarity,
    Task,
    Training,
    Transfer,
)


class Study(Section):
    """A study: models x mixtures of tasks x methods x seeds."""

    study: Name = Field(description="name of the study; results go to `results/<study>/`")
    seeds: Annotated[Distinct[Seed], Field(min_length=1)] = Field(
        description="one run of everything for each"
    )
    data_seed: Seed = Field(0, description="seed of splits, subsets and pairs, the same for every run")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="bf16 autocast where the processor or GPU has it, else fp32"
    )
    jobs_per_gpu: Count = Field(
        1, description="jobs that share a GPU of this machine, for models too small to keep one busy alone"
    )
    models: Annotated[dict[Name, Model], Field(min_length=1)] = Field(
        description="name: a pretrained encoder; each learns every mixture"
    )
    tasks: Annotated[dict[Name, Task], Field(min_length=1)] = Field(
        description="name: a labelled data set; their order here is their order in the names of mixtures"
    )
    mixtures: Mixtures
    methods: Annotated[Distinct[Literal["tuned", "frozen", "iat"]], Field(min_length=1)] = Field(
        ["tuned"],
        description="`tuned`: everything learns; `frozen`: the control, only the classifiers learn; `iat`: "
        "what the sections `iat` and `transfer` describe, which `snakemake iat` makes in any case",
    )
    training: Training = Training()
    importance: Importance = Importance()
    pruning: Pruning = Pruning()
    dissociation: Dissociation = Dissociation()
    similarity: Similarity = Similarity()
    brain: Brain | None = None
    iat: IAT = IAT()
    transfer: Transfer = Transfer()
    figures: Figures = Figures()

    def in_order(self, tasks: list[str]) -> tuple[str, ...]:
        """`tasks` in the order in which the config defines them."""
        return tuple(t for t in self.tasks if t in tasks)

    @property
    def mixture_tasks(self) -> dict[str, tuple[str, ...]]:
        """Mixture name: its tasks; pairs first, then groups."""
        pairs = itertools.combinations(self.in_order(self.mixtures.pairs), 2)
        groups = {name: self.in_order(tasks) for name, tasks in self.mixtures.groups.items()}
        return {"+".join(pair): pair for pair in pairs} | groups

    @property
    def correlated(self) -> Method:
        """The method whose dissociation is correlated with similarity: `tuned`, or the only one there is."""
        return "tuned" if "tuned" in self.methods else "frozen"

    @property
    def alone(self) -> tuple[str, ...]:
        """The tasks that are trained alone: those of the config, and those that measures compare."""
        compared = self.mixtures.pairs if set(self.similarity.measures) - {"paradigm", "text"} else []
        return self.in_order([*self.mixtures.single, *compared])

    @property
    def variants(self) -> list[Variant]:
        """The ways of training that are compared on the mixtures of the section `iat`, `tuned` first."""
        own, sampling = self.iat, self.training.sampling
        main: dict[str, Any] = {"heads": "top", "alpha": own.alpha, "delta": own.delta}
        alphas, deltas = (dict.fromkeys(v) for v in ([own.alpha, *own.alphas], [own.delta, *own.deltas]))
        found = [
            Variant(method="tuned", base="tuned", sampling=sampling),
            Variant(method="iat", base="tuned", sampling=sampling, **main),
        ]
        for heads in own.controls:
            method = heads if heads == "lora" else f"iat-{heads}"
            found.append(Variant(method=method, base="tuned", sampling=sampling, **main | {"heads": heads}))
        for alpha, delta in itertools.product(alphas, deltas):
            if (alpha, delta) != (own.alpha, own.delta):
                swept = main | {"alpha": alpha, "delta": delta}
                method = f"iat-alpha{alpha:g}-delta{delta:g}"
                found.append(Variant(method=method, base="tuned", sampling=sampling, **swept))
        for other in own.samplings:
            if other == sampling:
                continue
            base = f"tuned-{other}"
            found.append(Variant(method=base, base=base, sampling=other))
            found.append(Variant(method=f"iat-{other}", base=base, sampling=other, **main))
        return found

    @property
    def iat_runs(self) -> list[Run]:
        """The runs of every variant, those of plain training included, and of its tasks alone."""
        tasks = self.mixture_tasks
        kinds = [(mixture, tasks[mixture], v.method) for mixture in self.iat.mixtures for v in self.variants]
        alone = self.in_order([task for mixture in self.iat.mixtures for task in tasks[mixture]])
        return self._runs([*kinds, *((task, (task,), "single") for task in alone)])

    @property
    def submissions(self) -> list[tuple[str, str]]:
        """Mixture and method of every set of prediction files: of mixtures of all tasks with `test`."""
        tested = {name for name, task in self.tasks.items() if task.test}
        found = []
        for mixture, tasks in self.mixture_tasks.items():
            if tested and tested <= set(tasks):
                own, alone = mixture in self.iat.mixtures, tested <= set(self.alone)
                made = {"tuned": "tuned" in self.methods, "iat": own, "single": own or alone}
                found += [(mixture, method) for method, wanted in made.items() if wanted]
        return found

    @property
    def transfer_runs(self) -> list[Run]:
        """Whose encoders learn the tasks of the section `transfer`.

        For each seed also a run of no mixture, `pretrained`: its encoder is the unchanged one, and what
        differs between seeds are the new classifiers.
        """
        methods = self.transfer.methods if self.transfer.tasks else []
        unchanged: list[tuple[str, tuple[str, ...], str]] = [(NO_MIXTURE, (), "pretrained")]
        trained = [run for run in self.iat_runs if run.method in methods]
        return self._runs(unchanged if "pretrained" in methods else []) + trained

    @property
    def runs(self) -> list[Run]:
        """Every training run whose heads are scored: all but those that only IAT needs."""
        mixed = [
            (mixture, tasks, method)
            for mixture, tasks in self.mixture_tasks.items()
            for method in self.methods
            if method != "iat"
        ]
        return self._runs([*mixed, *((task, (task,), "single") for task in self.alone)])

    def _runs(self, kinds: list[tuple[str, tuple[str, ...], str]]) -> list[Run]:
        """Of each mixture, its tasks and method: the runs of every model and seed."""
        return [
            Run(model=model, mixture=mixture, tasks=tasks, method=method, seed=seed)
            for model in self.models
            for mixture, tasks, method in kinds
            for seed in self.seeds
        ]


def plain(value: Any) -> Any:
    """`value` as plain values sorted by key, so that equal settings are equal rule parameters.

    Only `labels` keeps its order, which is the order of the classes.
    """
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    elif isinstance(value, (Run, Variant)):
        value = asdict(value)
    if isinstance(value, dict):
        return {str(k): value[k] if k == "labels" else plain(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
