"""Inputs and settings of the rules of the section `gates`, by wildcards."""

from typing import Any

from headspec.config.as_text import named
from headspec.config.measures import heads as head_measures
from headspec.config.pruning_method import PruningMethod
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.runs import PrunedRun, Run
from headspec.config.study import plain
from headspec.config.table_values import IMPORTANCE, WHOLE
from headspec.pipeline.inputs import Inputs
from headspec.pipeline.layout import RUN

#: folder of a run that is pruned to a number of heads, with wildcards
PRUNED_RUN = RUN + "/gates/{pruning_method}/{scope}/{kept}"
#: the heads that an open-ended pruning method leaves open
OPEN = "open"


class PrunedRuns:
    """Input files and settings for the rules that prune to numbers of heads."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.study = inputs, inputs.study

    def files(self, name: str) -> list[str]:
        """Return the file `name` of each pruned run."""
        return [self.inputs.layout.result("runs", run.path, name) for run in self.study.pruned_runs]

    @property
    def runs(self) -> list[Run]:
        """The runs that are pruned."""
        return list(dict.fromkeys(pruned.run for pruned in self.study.pruned_runs))

    def roles_after(self, wildcards: Any) -> list[str]:
        """Return the roles of the heads that each set keeps, for each run whose model is saved."""
        return [
            self.inputs.layout.result("runs", pruned.path, f"atlas/{kept_for}/roles.parquet")
            for pruned in self.study.pruned_runs
            if pruned.pruning_method in self.study.gates.keep_models
            for kept_for in pruned.kept_for
        ]

    @property
    def names(self) -> list[str]:
        """The pruning methods of the study."""
        return [WHOLE, *self.study.gates.pruning_methods]

    def methods(self, open_ended: bool) -> list[str]:
        """Return the pruning methods that are open-ended, or those that are not."""
        return [name for name, method in PRUNING_METHODS.items() if method.open_ended == open_ended]

    def learning(self, wildcards: Any) -> dict[str, str]:
        """Return inputs of the rule learn_gates: the model that it starts from, if it was trained."""
        if PRUNING_METHODS[wildcards.pruning_method].start != "trained":
            return {}
        return {"model": self.inputs.run_file("model/classifiers.json", **_run(wildcards))}

    def pruning(self, wildcards: Any) -> dict[str, str]:
        """Return inputs of the rule pruned_run: the model, and what says which heads to keep."""
        method, run = PRUNING_METHODS[wildcards.pruning_method], _run(wildcards)
        files = self.learning(wildcards)
        if method.open_ended:
            kept = wildcards.kept if wildcards.kept.startswith(OPEN) else OPEN
            folder = f"gates/{wildcards.pruning_method}/{wildcards.scope}/{kept}"
            files["state"] = self.inputs.run_file(f"{folder}/state.pt", **run)
        if table := _table(wildcards.pruning_method, method):
            files["heads"] = self.inputs.run_file(table, **run)
        if method.chosen == "copied":
            folder = f"gates/{self.study.gates.source}/{wildcards.scope}/{wildcards.kept}"
            files["copied"] = self.inputs.run_file(f"{folder}/gates.parquet", **run)
        return files

    def rankings(self, wildcards: Any) -> list[str]:
        """Return the gates of each of a run's tasks that rank its heads for the atlas.

        Gates that learn a given number of heads keep as many as `pruning.fraction` leaves.
        """
        tasks = self.inputs.settings.tasks(wildcards)
        run = Run(wildcards.model, wildcards.mixture, tuple(tasks), wildcards.method, int(wildcards.seed))
        scope, rest = "per_task" if len(tasks) > 1 else "shared", 1 - self.study.pruning.fraction
        names = head_measures.learnt(self.study.atlas.rankings)
        pruned = [
            PrunedRun(run, name, scope, None if PRUNING_METHODS[name].open_ended else rest) for name in names
        ]
        return [self.inputs.layout.result("runs", each.path, "gates.parquet") for each in pruned]

    def method(self, wildcards: Any) -> dict[str, Any]:
        """Return what a job needs of its pruning method."""
        method = vars(PRUNING_METHODS[wildcards.pruning_method])
        return {key: value for key, value in method.items() if key != "label"}

    def settings(self, wildcards: Any) -> dict[str, Any]:
        """Return the keys of the section that a pruning method uses."""
        method, values = PRUNING_METHODS[wildcards.pruning_method], plain(self.study.gates)
        used = {
            "epochs": True,
            "learning": method.chosen in ("learnt", "stepwise"),
            "learning_rate": method.chosen == "learnt",
            "penalty": method.open_ended,
            "rescorings": method.chosen == "stepwise",
            "attention": values["attention"] and method.chosen not in ("all", "copied"),
        }
        others = {f"{OPEN}-{named(penalty)}": penalty for penalty in values["penalties"]}
        values["penalty"] = others.get(wildcards.kept, values["penalty"])
        return {key: values[key] for key, is_used in used.items() if is_used}

    def samples(self, wildcards: Any) -> int | None:
        """Return the examples per task on which `rescored` computes importance; None for other methods."""
        stepwise = PRUNING_METHODS[wildcards.pruning_method].chosen == "stepwise"
        return self.study.importance.samples if stepwise else None

    def measured(self, wildcards: Any) -> dict[str, Any]:
        """Return the atlas measure that ranks the heads, and its number of examples; empty if none does."""
        if (
            PRUNING_METHODS[wildcards.pruning_method].chosen != "ranked"
            or wildcards.pruning_method == IMPORTANCE
        ):
            return {}
        return {"measure": wildcards.pruning_method, "examples": self.study.atlas.examples}


def _run(wildcards: Any) -> dict[str, str]:
    return {name: getattr(wildcards, name) for name in ("model", "mixture", "method", "seed")}


def _table(name: str, method: PruningMethod) -> str | None:
    """Return a run's table by which a method chooses heads or their numbers by layer, if it needs one."""
    if name == IMPORTANCE or method.chosen in ("drawn", "plugged"):
        return "importance.parquet"
    return f"atlas/{head_measures.MEASURES[name].table}.parquet" if method.chosen == "ranked" else None
