"""Inputs and settings of the rules of the section `gates`, by wildcards."""

from __future__ import annotations

from typing import Any

from headspec.config.measures import heads as head_measures
from headspec.config.runs import Budget, Run, named
from headspec.config.study import plain
from headspec.config.ways import IMPORTANCE, WAYS, WHOLE, Way
from headspec.pipeline.inputs import Inputs
from headspec.pipeline.layout import RUN

#: folder of a run that is pruned to a number of heads, with wildcards
BUDGET = RUN + "/gates/{way}/{sets}/{kept}"
#: the heads that an open-ended way leaves open
OPEN = "open"


class Budgets:
    """Input files and settings for the rules that prune to numbers of heads."""

    def __init__(self, inputs: Inputs) -> None:
        self.inputs, self.study = inputs, inputs.study

    def of_budgets(self, name: str) -> list[str]:
        """A file of each run that is pruned to a number of heads."""
        return [self.inputs.layout.result("runs", budget.path, name) for budget in self.study.budgets]

    @property
    def runs(self) -> list[Run]:
        """The runs that are pruned."""
        return list(dict.fromkeys(budget.run for budget in self.study.budgets))

    def roles_after(self, wildcards: Any) -> list[str]:
        """The roles of the heads that each set keeps, of each run whose model is saved."""
        saved = [each for each in self.study.budgets if each.way in self.study.gates.keep_models]
        results = self.inputs.layout.result
        return [results("runs", each.path, f"atlas/{of}/roles.parquet") for each in saved for of in each.of]

    @property
    def names(self) -> list[str]:
        """The ways of the study."""
        return [WHOLE, *self.study.gates.ways]

    def ways(self, open_ended: bool) -> list[str]:
        """The ways that are open-ended, or those that are not."""
        return [name for name, way in WAYS.items() if way.open_ended == open_ended]

    def learning(self, wildcards: Any) -> dict[str, str]:
        """Inputs of the rule learn_gates: the model that it starts from, if it was trained."""
        if WAYS[wildcards.way].start != "trained":
            return {}
        return {"model": self.inputs.of_run("model/classifiers.json", **_run(wildcards))}

    def pruning(self, wildcards: Any) -> dict[str, str]:
        """Inputs of the rule budget: the model, and what says which heads to keep."""
        way, run = WAYS[wildcards.way], _run(wildcards)
        files = self.learning(wildcards)
        if way.open_ended:
            kept = wildcards.kept if wildcards.kept.startswith(OPEN) else OPEN
            folder = f"gates/{wildcards.way}/{wildcards.sets}/{kept}"
            files["state"] = self.inputs.of_run(f"{folder}/state.pt", **run)
        if table := _table(wildcards.way, way):
            files["heads"] = self.inputs.of_run(table, **run)
        if way.chosen == "copied":
            folder = f"gates/{self.study.gates.source}/{wildcards.sets}/{wildcards.kept}"
            files["copied"] = self.inputs.of_run(f"{folder}/gates.parquet", **run)
        return files

    def rankings(self, wildcards: Any) -> list[str]:
        """The gates of each of a run's tasks that rank its heads for the atlas.

        Those that learn with a number of heads in view keep what `pruning.fraction` leaves.
        """
        tasks = self.inputs.tasks(wildcards)
        run = Run(wildcards.model, wildcards.mixture, tuple(tasks), wildcards.method, int(wildcards.seed))
        sets, rest = "own" if len(tasks) > 1 else "shared", 1 - self.study.pruning.fraction
        names = head_measures.learnt(self.study.atlas.rankings)
        budgets = [Budget(run, name, sets, None if WAYS[name].open_ended else rest) for name in names]
        return [self.inputs.layout.result("runs", budget.path, "gates.parquet") for budget in budgets]

    def way(self, wildcards: Any) -> dict[str, Any]:
        """What a job needs of its way."""
        return {key: value for key, value in vars(WAYS[wildcards.way]).items() if key != "label"}

    def settings(self, wildcards: Any) -> dict[str, Any]:
        """The keys of the section that a way uses."""
        way, values = WAYS[wildcards.way], plain(self.study.gates)
        used = {
            "epochs": True,
            "learning": way.chosen in ("learnt", "stepwise"),
            "learning_rate": way.chosen == "learnt",
            "penalty": way.open_ended,
            "rescorings": way.chosen == "stepwise",
            "attention": values["attention"] and way.chosen not in ("all", "copied"),
        }
        others = {f"{OPEN}-{named(penalty)}": penalty for penalty in values["penalties"]}
        values["penalty"] = others.get(wildcards.kept, values["penalty"])
        return {key: values[key] for key, is_used in used.items() if is_used}

    def samples(self, wildcards: Any) -> int | None:
        """Training examples of a task on which `rescored` computes importance."""
        return self.study.importance.samples if WAYS[wildcards.way].chosen == "stepwise" else None

    def measured(self, wildcards: Any) -> dict[str, Any]:
        """The measure of the atlas that ranks the heads, and on how many examples; empty for other ways."""
        if WAYS[wildcards.way].chosen != "ranked" or wildcards.way == IMPORTANCE:
            return {}
        return {"measure": wildcards.way, "examples": self.study.atlas.examples}


def _run(wildcards: Any) -> dict[str, str]:
    return {name: getattr(wildcards, name) for name in ("model", "mixture", "method", "seed")}


def _table(name: str, way: Way) -> str | None:
    """The table of a run that ranks its heads for a way; of random ones by layer, for their numbers; of a
    plugin, what it chooses by.
    """
    if name == IMPORTANCE or way.chosen in ("drawn", "plugged"):
        return "importance.parquet"
    return f"atlas/{head_measures.MEASURES[name].table}.parquet" if way.chosen == "ranked" else None
