"""Random tables of IAT and its controls, for studies of any size."""

import pandas as pd

from headspec.config import variants
from headspec.config.sections.iat import IAT
from headspec.config.study import Study
from headspec.statistics.improvement import against
from support.figures import LONG, NINE, SMALL, made

FEW = IAT(mixtures=["all"], controls=["random"], alphas=[0.5])
MANY = IAT(
    mixtures=["all"], controls=["random", "random-by-layer", "bottom", "other", "lora"],
    alphas=[0.1, 0.5, 0.7, 1], deltas=[0.05, 0.2, 0.3], samplings=["sqrt", "annealed"],
)  # fmt: skip
#: every control at every point, and plain training with rewarmed rates
WHOLE = IAT(
    mixtures=["all"], controls=variants.CONTROLS, sweep_controls=True, rate="rewarmed",
    alphas=[0.1, 0.6], deltas=[0.3, 0.5], reserve=0.5,
)  # fmt: skip
#: name: tasks, seeds, section `iat`
CASES = {
    "small": (SMALL, 1, FEW),
    "nine": (NINE, 3, MANY),
    "long": (LONG, 2, MANY),
    "whole": (NINE, 3, WHOLE),
}
DIFFERENCE = ["difference", "ci_low", "ci_high"]


def study(tasks: list[str], seeds: int, iat: IAT) -> Study:
    return Study(
        study="s", seeds=list(range(seeds)), models={"m": {"source": "x"}},
        tasks={task: {"source": "x"} for task in tasks},
        mixtures={"groups": {"all": tasks}}, iat=iat,
    )  # fmt: skip


def metrics(tasks: list[str]) -> dict[str, str]:
    return {
        task: {"cola": "matthews", "stsb": "spearman", "mrpc": "f1"}.get(task, "accuracy") for task in tasks
    }


def labels(config: Study) -> dict[str, str]:
    return variants.RETRAININGS.labels(variant.retraining for variant in config.variants.values())


def iat_table(config: Study) -> pd.DataFrame:
    """Table `iat` of every run."""
    runs = [
        made("iat", i, model="m", mixture=run.mixture, method=run.method, seed=run.seed, task=[*run.tasks])
        for i, run in enumerate(config.iat_runs)
    ]
    table = pd.concat(runs, ignore_index=True)
    return table.assign(metric=table["task"].map(metrics(list(config.tasks))), unpruned_at_chance=False)


def improvement_table(config: Study) -> pd.DataFrame:
    """Table `improvement`, without p over seeds of one or two."""
    plain, others = next(iter(config.variants)), against([*config.variants.values()])
    tasks = list(config.tasks)
    table = made(
        "improvement", model="m", mixture="all", method=[plain, *others], task=["mean", *tasks],
        n_seeds=len(config.seeds), ci_over="seeds and examples" if len(config.seeds) > 2 else "examples",
    )  # fmt: skip
    columns = {"sampling": "sampling", "heads": "retraining", "alpha": "alpha", "delta": "delta"}
    for name, attribute in columns.items():
        values = {method: getattr(variant, attribute) for method, variant in config.variants.items()}
        table[name] = table["method"].map(values)
    table = table.assign(
        metric=table["task"].map(metrics(tasks) | {"mean": "mean"}), against=table["method"].map(others)
    )
    table[DIFFERENCE] = (table[DIFFERENCE] - 0.5) / 10
    return table if len(config.seeds) > 2 else table.assign(p_seeds=None, p_seeds_holm=None)


def specialization_tables(tasks: list[str], seeds: int) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Tables `specialization`, `combined` and `dissociation` before and after IAT."""
    rows = dict(model="m", mixture="all", task=[*tasks, "mean"], n_seeds=seeds, ci_over="examples")
    methods = ["tuned", "iat"]
    runs = dict(mixture="all", method=methods, seed=range(seeds), task=tasks, fraction=0.3)
    return (
        made("specialization", **rows), made("combined", **rows, method=methods), made("dissociation", **runs)
    )  # fmt: skip
