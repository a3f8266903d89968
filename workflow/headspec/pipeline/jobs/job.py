"""A job of a rule: its study and wildcards, and the config values that rules pass to its script."""

from typing import Any

from headspec.config.measures.heads import MEASURES
from headspec.config.pruning_methods import PRUNING_METHODS, PruningMethod
from headspec.config.runs import RUN, Variant
from headspec.config.sections.model import Model
from headspec.config.sections.task import Task, determinants
from headspec.config.sources import place
from headspec.config.study import plain
from headspec.config.values import RANDOM
from headspec.config.variants import RETRAININGS, Retraining
from headspec.errors import ConfigError, nearest
from headspec.heads import head_settings
from headspec.pipeline.layout import Layout
from headspec.tasks import prompt_checks
from headspec.tasks.registry import KINDS, kind

Values = dict[str, Any]


class Job:
    """A job of a rule of the study of `layout`, with the `wildcards` that Snakemake read from its outputs.

    `job(Job.training)` in a rule passes what the method returns. Functions of a job in other modules are
    passed in the same way: of `files` for inputs, of `versions` for contents of users' files, of `pruned` and
    `probing` for their sections, and of `headspec.cost.requests` for resources.
    """

    def __init__(self, layout: Layout, wildcards: Any) -> None:
        self.layout, self.study, self.wildcards = layout, layout.study, wildcards

    @property
    def task(self) -> Task:
        """The task of a job on a single task."""
        return self.study.tasks[self.wildcards.task]

    @property
    def model(self) -> Model:
        return self.study.models[self.wildcards.model]

    @property
    def tasks(self) -> dict[str, Task]:
        """The tasks of the job's mixture, in order. Raises ConfigError if the study does not have it."""
        mixtures, name = self.study.tasks_by_mixture, self.wildcards.mixture
        if name not in mixtures:
            raise ConfigError(f"no mixture '{name}' in {self.study.study}.{nearest(name, mixtures)}")
        return {task: self.study.tasks[task] for task in mixtures[name]}

    @property
    def variant(self) -> Variant:
        """The variant of training that is the job's method, of those that `variants.compared` lists."""
        return self.study.variants[self.wildcards.method]

    @property
    def retraining(self) -> Retraining:
        """What follows the branch in the job's variant of training."""
        return RETRAININGS[str(self.variant.retraining)]

    @property
    def pruning_method(self) -> PruningMethod:
        return PRUNING_METHODS[self.wildcards.pruning_method]

    def run_file(self, name: str, **changed: str) -> str:
        """Return a file of the job's run, or of the run with other wildcards."""
        return self.layout.result(RUN.format(**{**self.wildcards, **changed}), name)

    # --- of its run

    def trains(self) -> str:
        """Return the part of the model that the job's method trains."""
        return self.study.trains(self.wildcards.method)

    def training(self) -> Values:
        """Return the section `training` as the job's method uses it."""
        trained = [] if self.trains() == "classifiers" else [kind(task) for task in self.tasks.values()]
        of_some_types = {key for each in KINDS.values() for key in each.training}
        unused = of_some_types.difference(*(each.training for each in trained))
        method = self.wildcards.method
        training = self.study.training.for_method(self.study.as_method(method), unused)
        if variant := self.study.variants.get(method):
            training = training.model_copy(update={"sampling": variant.sampling})
        values: Values = plain(training)
        return values

    def transfer_training(self) -> Values:
        """Return the section `training` as transfer to a task uses it, in a number of steps of its own."""
        used = {"clip", "decay", "learning_rate", "warmup", "weight_decay"}
        training = self.study.training
        values: Values = plain(training.for_method("tuned", type(training).model_fields.keys() - used))
        return values

    def variant_settings(self) -> Values:
        """Return how the job's variant of training differs from IAT."""
        study, retraining = self.study, self.retraining
        values: Values = {"module": retraining.module, "heads": retraining.heads, "alpha": self.variant.alpha}
        if retraining.module == "rescored":
            values |= {"rescorings": study.iat.rescorings, "samples": study.importance.samples}
        if retraining.ranking:
            values["ranking"] = retraining.ranking
        if not retraining.dropout:
            values["dropout"] = False
        if study.rewarmed_peak:
            values["peak"] = study.rewarmed_peak
        return values

    # --- of its model

    def loaded_model(self) -> Values:
        """Return the keys of the job's model by which it is loaded."""
        values: Values = plain(self.model.model_dump(exclude={"max_length", "gpus", "heads"}))
        return values | {"source": place(values["source"])}

    def random_model(self) -> Values:
        """Return the keys of `loaded_model`, with random weights."""
        return self.loaded_model() | {"weights": RANDOM}

    def tokenizer(self) -> Values:
        """Return the keys of the job's model by which texts become tokens."""
        values: Values = plain(self.model.model_dump(include={"source", "max_length", "transformer"}))
        return values | {"source": place(values["source"])}

    def vocabulary(self) -> Values:
        """Return the size and languages of the vocabulary of a model that the config describes."""
        learnt = [self.study.tasks[name] for name in self.layout.learnt_tasks]
        languages = {language for each in learnt for language in kind(each).languages(each)}
        made = self.model.transformer
        return {"languages": sorted(languages), "size": made.vocabulary if made else 0}

    def head_lists(self) -> dict[str, list[list[int]]]:
        """Return the lists of heads of the job's model."""
        lists, key = self.model.heads, f"models.{self.wildcards.model}.heads"
        return {name: head_settings.read_head_list(lists[name], f"{key}.{name}") for name in sorted(lists)}

    # --- of its tasks

    def task_names(self) -> list[str]:
        """Return the names of the tasks of the job's mixture, in order."""
        return list(self.tasks)

    def metrics(self) -> dict[str, list[str]]:
        """Return the metrics of each task of the job's mixture, the main one first."""
        return {name: task.metrics for name, task in self.tasks.items()}

    def main_metrics(self) -> dict[str, str]:
        """Return the main metric of each task of the job's mixture."""
        return {name: metrics[0] for name, metrics in self.metrics().items()}

    def translations(self) -> list[str]:
        """Return the tasks of the job's mixture whose texts the model writes."""
        return [name for name, task in self.tasks.items() if kind(task).writes]

    def beams(self) -> dict[str, int]:
        """Return the number of beams of each task of the job's mixture that is not decoded greedily."""
        return {name: n for name, task in self.tasks.items() if (n := kind(task).beams(task)) > 1}

    def names(self, split: str) -> dict[str, str]:
        """Return the task of each further split, or test set's prediction file, of the job's mixture."""
        return {name: task for task, keys in self.tasks.items() for name in getattr(keys, split)}

    def task_settings(self, *without: str) -> Values:
        """Return the keys of a task that affect its data, except `without`."""
        values: Values = plain(determinants(self.task, "test", *without))
        return values | {"source": place(values["source"])}

    def split_settings(self) -> Values:
        """Return the keys of a task that affect one of its further splits or test sets."""
        values: Values = plain(determinants(self.task, "further", "test", "train_examples"))
        section, name = self.wildcards.section, self.wildcards.name
        stored = getattr(self.task, section)[name]
        return values | {"source": place(values["source"]), section: {name: stored}}

    def prompt(self) -> Values:
        """Return `prompt_settings` of the job's task."""
        return prompt_settings(self.task)

    def behaviour_prompts(self) -> dict[str, Values | None]:
        """Return the prompt of each task of a run, if a behaviour of heads reads answers.

        It is None if the behaviour reads texts alone; empty if it reads no task.
        """
        reads = MEASURES[self.wildcards.measure].reads
        return {
            name: prompt_settings(task) if reads == "answers" else None
            for name, task in self.tasks.items()
            if reads
        }

    # --- of the study's files

    def treebank(self) -> Values | None:
        """Return the section of the treebank; None without one."""
        settings: Values | None = plain(self.study.atlas.treebank)
        return settings and settings | {"source": place(settings["source"])}

    def user_file(self, section: str, key: str) -> str | None:
        """Return the path of the file in a config key; None if it has none."""
        return place(getattr(getattr(self.study, section), key))


def prompt_settings(task: Task) -> Values:
    """Return the keys of a task for the method `prompted`."""
    values: Values = plain(task.model_dump(include={"type", *prompt_checks.KEYS}))
    asked = kind(task).asked(task)
    return values | ({"asked": asked} if asked else {})
