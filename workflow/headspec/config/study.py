"""The study, models x mixtures of tasks x methods x seeds, and its training runs."""

import itertools
import math
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import BaseModel, Field

from headspec.config import methods, variants
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.runs import NO_MIXTURE, REWARMED, PrunedRun, Run, Variant
from headspec.config.sections.atlas import Atlas, Probes
from headspec.config.sections.gates import Gates
from headspec.config.sections.heads import Dissociation, Importance, Pruning
from headspec.config.sections.iat import IAT, Transfer
from headspec.config.sections.model import Model
from headspec.config.sections.similarity import Brain, Similarity
from headspec.config.sections.task import Task
from headspec.config.sections.training import Training
from headspec.config.values import WHOLE
from headspec.sections import NUMBER, Count, Distinct, Name, OneOf, Section, Seed
from headspec.tasks.registry import kind

#: allowed entries of `methods`: methods, and sections that are run as part of the study
Listed = Annotated[str, OneOf(methods.LISTED)]


class Mixtures(Section):
    """Sets of tasks that share an encoder."""

    pairs: Distinct[str] = Field([], description="tasks of which every pair is a mixture")
    groups: dict[Name, Distinct[str]] = Field({}, description="name: tasks of a mixture of any size")
    single: Distinct[str] = Field([], description="tasks that are also trained alone (method `single`)")


class Figures(Section):
    """Files of the figures."""

    formats: Annotated[Distinct[Literal["svg", "png", "pdf"]], Field(min_length=1)] = Field(
        ["svg", "png"], description="file formats"
    )
    dpi: Annotated[int, Field(ge=50), NUMBER] = Field(200, description="resolution of PNG files")


class Study(Section):
    """A study: models x mixtures of tasks x methods x seeds."""

    study: Name = Field(description="name of the study; results go to `results/<study>/`")
    seeds: Annotated[Distinct[Seed], Field(min_length=1)] = Field(description="seeds of every training run")
    data_seed: Seed = Field(0, description="seed of splits, subsets, pairs, resamples and permutations")
    precision: Literal["auto", "fp32", "bf16"] = Field(
        "auto", description="`auto`: bf16 autocast where the hardware is faster in it, else fp32"
    )
    plugins: Distinct[str] = Field(
        [],
        description="modules with [measures and pruning methods](code/extending.md#a-plugin), by import name "
        "or path (`*.py`), and folders of [kinds of tasks](code/extending.md#a-kind-of-task)",
    )
    jobs_per_gpu: Count = Field(1, description="jobs that share a local GPU")
    models: Annotated[dict[Name, Model], Field(min_length=1)] = Field(
        description="name: a pretrained encoder, trained on every mixture"
    )
    tasks: Annotated[dict[Name, Task], Field(min_length=1)] = Field(
        description="name: a labelled data set; mixtures' names keep this order"
    )
    mixtures: Mixtures
    methods: Annotated[Distinct[Listed], Field(min_length=1)] = Field(
        ["tuned"],
        description="".join(f"`{name}`: {methods.METHODS[name].about}; " for name in methods.NAMED)
        + "`iat` (with `transfer`), `atlas`, `gates`, `probes`, `grouping`: also make this "
        "[target](running.md#your-own-study)",
    )
    training: Training = Training()
    importance: Importance = Importance()
    pruning: Pruning = Pruning()
    dissociation: Dissociation = Dissociation()
    similarity: Similarity = Similarity()
    brain: Brain | None = None
    iat: IAT = IAT()
    transfer: Transfer = Transfer()
    atlas: Atlas = Atlas()
    gates: Gates = Gates()
    probes: Probes = Probes()
    figures: Figures = Figures()

    def __copy__(self) -> Self:
        """Return a copy without cached properties, whose fields `model_copy` may then change."""
        copied = super().__copy__()
        for name in copied.__dict__.keys() - type(self).model_fields:
            del copied.__dict__[name]
        return copied

    def in_order(self, tasks: list[str]) -> tuple[str, ...]:
        """Return `tasks` in the order of the config."""
        return tuple(t for t in self.tasks if t in tasks)

    @property
    def mixture_tasks(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each mixture by name; pairs first, then groups."""
        pairs = itertools.combinations(self.in_order(self.mixtures.pairs), 2)
        groups = {name: self.in_order(tasks) for name, tasks in self.mixtures.groups.items()}
        return {"+".join(pair): pair for pair in pairs} | groups

    @cached_property
    def tasks_by_mixture(self) -> dict[str, tuple[str, ...]]:
        """The tasks of each mixture by name, and of each single-task run, which is named after its task."""
        return self.mixture_tasks | {task: (task,) for task in self.tasks}

    @cached_property
    def compared_metrics(self) -> dict[str, list[str]]:
        """The metrics that compare models, the main one first, by task or further split of a task."""
        further = {name: task for task in self.tasks.values() for name in task.further}
        return {
            name: [metric for metric in task.metrics if metric not in kind(task).beside]
            for name, task in (self.tasks | further).items()
        }

    @cached_property
    def main_metrics(self) -> dict[str, str]:
        """The main metric by task or further split of a task."""
        return {name: metrics[0] for name, metrics in self.compared_metrics.items()}

    @property
    def correlated(self) -> str:
        """The method whose dissociation is correlated with similarity: the study's first of `NAMED`."""
        return next(method for method in methods.NAMED if method in self.methods)

    @property
    def plain_method(self) -> str:
        """The method by which IAT and `single` train, too: `lora` in studies with it but without `tuned`."""
        return "lora" if "lora" in self.methods and "tuned" not in self.methods else "tuned"

    @property
    def learning_rate(self) -> float:
        """The peak learning rate of plain training."""
        return self.training.for_method(self.plain_method).learning_rate

    @property
    def rewarmed_peak(self) -> float | None:
        """The peak learning rate after the branch; None if rates continue."""
        return (self.iat.peak or self.learning_rate) if self.iat.rate == REWARMED else None

    @property
    def alone(self) -> tuple[str, ...]:
        """The tasks of single-task runs: `mixtures.single`, and those whose models similarity compares."""
        compared = self.mixtures.pairs if self.similarity.compares_models else []
        return self.in_order([*self.mixtures.single, *compared])

    @property
    def learnt(self) -> dict[str, Task]:
        """The tasks that models learn: those of mixtures, those learnt alone, and those of `transfer`."""
        names = {*self.alone, *self.transfer.tasks, *itertools.chain(*self.mixture_tasks.values())}
        return {name: task for name, task in self.tasks.items() if name in names}

    @property
    def list_draws(self) -> int:
        """Number of random masks for each head list, enough for p to reach 1 - confidence."""
        least = math.ceil(1 / (1 - self.dissociation.confidence) - 1 - 1e-9)  # despite binary rounding
        return max(self.pruning.draws, least)

    @cached_property
    def variants(self) -> dict[str, Variant]:
        """The variants of training compared on `iat.mixtures`, by method, plain training first."""
        planned = variants.compared(self.iat, self.plain_method, self.training.sampling)
        return {variant.method: variant for variant in planned}

    @property
    def continued(self) -> list[str]:
        """Methods of plain training that variants continue."""
        return list(dict.fromkeys(variant.base for variant in self.variants.values()))

    @property
    def retrained(self) -> list[str]:
        """Methods of the variants that continue plain training."""
        return [method for method in self.variants if method not in self.continued]

    def as_method(self, method: str) -> str:
        """Return the method that trains as `method`: for IAT, its controls and `single`, plain training."""
        return self.plain_method if method in self.variants or method == "single" else method

    def trains(self, method: str) -> str:
        """Return what a method trains (`headspec.config.methods`)."""
        entry = methods.METHODS.get(self.as_method(method))
        return entry.trains if entry else "all"

    @property
    def iat_runs(self) -> list[Run]:
        """The runs of every variant, including plain training, and of each of its tasks alone."""
        tasks = self.mixture_tasks
        kinds = [
            (mixture, tasks[mixture], v.method)
            for mixture in self.iat.mixtures
            for v in self.variants.values()
        ]
        alone = self.in_order([task for mixture in self.iat.mixtures for task in tasks[mixture]])
        return self._runs([*kinds, *((task, (task,), "single") for task in alone)])

    @property
    def submissions(self) -> list[tuple[str, str]]:
        """Mixture and method of each set of prediction files; the mixture has all tasks with `test`."""
        tested = {name for name, task in self.tasks.items() if task.test}
        submissions = []
        for mixture, tasks in self.mixture_tasks.items():
            if tested and tested <= set(tasks):
                iat = mixture in self.iat.mixtures
                alone = methods.alone(self.methods) == "single" and tested <= set(self.alone)
                trained = {name: name in self.methods for name in methods.LEARNING}
                trained |= {"iat": iat, "single": iat or alone}
                submissions += [(mixture, method) for method, is_trained in trained.items() if is_trained]
        return submissions

    @property
    def transfer_runs(self) -> list[Run]:
        """The runs whose encoders are transferred to the tasks of the section `transfer`.

        The method `pretrained` has no mixture; its seeds differ only in the new classifiers.
        """
        methods = self.transfer.methods if self.transfer.tasks else []
        unchanged: list[tuple[str, tuple[str, ...], str]] = [(NO_MIXTURE, (), "pretrained")]
        trained = [run for run in self.iat_runs if run.method in methods]
        return self._runs(unchanged if "pretrained" in methods else []) + trained

    @property
    def atlas_runs(self) -> list[Run]:
        """The runs whose heads the atlas measures."""
        iat = [run for run in self.iat_runs if run.method == "iat"]
        return self._chosen(self.atlas, [*self.runs, *iat])

    @property
    def sharing_runs(self) -> list[Run]:
        """The fine-tuned runs of all mixtures, and the single-task runs of their tasks and of `alone`."""
        mixed = [(mixture, tasks, "tuned") for mixture, tasks in self.mixture_tasks.items()]
        alone = self.in_order([*self.alone, *itertools.chain(*self.mixture_tasks.values())])
        return self._runs([*mixed, *((task, (task,), "single") for task in alone)])

    @property
    def probed(self) -> list[Run]:
        """The runs of the section `probes`: those with tasks on words."""
        chosen = self._chosen(self.probes, [*self.runs, *self.iat_runs])
        return [run for run in chosen if any(kind(self.tasks[task]).on_words for task in run.tasks)]

    @property
    def pruned_runs(self) -> list[PrunedRun]:
        """The runs of the section `gates`, pruned by every pruning method to every number of heads."""
        gates, pruned = self.gates, []
        runs = self.runs if self.plain_method == "tuned" else []  # all weights of a pruned run are trained
        for run in self._chosen(gates, runs):
            for scope in gates.scope if len(run.tasks) > 1 else ["shared"]:
                pruned.append(PrunedRun(run, WHOLE, scope, 1.0))
                for method in gates.pruning_methods:
                    fractions = [*gates.kept, *([None] if PRUNING_METHODS[method].open_ended else [])]
                    pruned += [PrunedRun(run, method, scope, fraction) for fraction in fractions]
                    penalties = gates.penalties if PRUNING_METHODS[method].open_ended else []
                    pruned += [PrunedRun(run, method, scope, None, penalty) for penalty in penalties]
        return pruned

    @property
    def runs(self) -> list[Run]:
        """The training runs whose heads are scored, without those that only IAT needs."""
        mixed = [
            (mixture, tasks, method)
            for mixture, tasks in self.mixture_tasks.items()
            for method in self.methods
            if method in methods.NAMED
        ]
        method = methods.alone(self.methods)
        return self._runs([*mixed, *((task, (task,), method) for task in self.alone)])

    def _chosen(self, section: Atlas | Gates | Probes, runs: list[Run]) -> list[Run]:
        """Return those of `runs`, each once, that have a section's methods and mixtures."""
        wanted = {*(section.mixtures or self.tasks_by_mixture)}
        every = {run.path: run for run in runs}.values()
        return [run for run in every if run.method in section.methods and run.mixture in wanted]

    def _runs(self, kinds: list[tuple[str, tuple[str, ...], str]]) -> list[Run]:
        """Return a run for each model, seed, and kind (mixture, its tasks, method)."""
        return [
            Run(model=model, mixture=mixture, tasks=tasks, method=method, seed=seed)
            for model in self.models
            for mixture, tasks, method in kinds
            for seed in self.seeds
        ]


def plain(value: Any) -> Any:
    """Return `value` as plain sorted values: equal settings give equal params. `labels` keeps its order."""
    if isinstance(value, BaseModel):
        value = value.model_dump(mode="json")
    elif isinstance(value, (Run, Variant, PrunedRun)):
        value = vars(value)
    if isinstance(value, dict):
        return {str(k): value[k] if k == "labels" else plain(value[k]) for k in sorted(value, key=str)}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    return value
