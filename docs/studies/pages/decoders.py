"""Numbers of decoders.md."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots import matrix
from headspec.statistics.resampling import SIGNIFICANCE
from pages import kept
from pages.kept import markdown, of_runs, points, rounded, rows_of, sides, table

STUDY = "decoders"
#: by which each task is judged
METRICS = dict.fromkeys(("sentiment", "topic", "question", "entailment"), "accuracy") | dict.fromkeys(
    ("subject-verb", "determiner-noun", "anaphor", "irregular"), "pair_accuracy"
)
FRACTION = 0.05
RANDOM = ("random", "random_by_layer")


def pruned(study: str = STUDY, method: str = "prompted") -> pd.DataFrame:
    """Means over seeds of the main metric: a row for each of whose heads are pruned, how many, and task."""
    frame = pd.concat(of_runs(study, "pruning", method))
    frame = frame[(frame["metric"] == frame["task"].map(METRICS)) & (frame["order"] != "bottom")]
    return frame.groupby(["pruned_for", "n_pruned", "task"])["value"].mean().unstack("task")


def harm() -> str:
    """What every task is worth, and with its own, other tasks' and random heads pruned."""
    means = pruned()
    base, numbers = means.loc["none"].iloc[0], counts()

    def rows() -> Iterator[list[str]]:
        for task in METRICS:
            own = [means.loc[(task, n), task] for n in numbers]
            others = [means.loc[[(o, n) for o in METRICS if o != task], task].mean() for n in numbers]
            random = [means.loc[(kind, numbers[-1]), task] for kind in RANDOM]
            values = (base[task], *own, *others, *random)
            yield [task, *(f"{100 * value:.0f}" for value in values)]

    head = ["task", "unpruned", *(f"{whose} {n}" for whose in ("own", "others'") for n in numbers)]
    return markdown([*head, f"random {numbers[-1]}", "prompts' layers"], rows())


def draws() -> str:
    """How far importance agrees between draws, and between tasks of a draw; means over pairs of them."""
    means = table(STUDY, "reliability").groupby(["kind", "task"])[["spearman", "top_overlap"]].mean()

    def rows() -> Iterator[list[str]]:
        for column, what in {"spearman": "rank correlation", "top_overlap": "overlap of the top 5 %"}.items():
            for kind, of in {"seeds": "two draws", "tasks": "another task"}.items():
                values = (means.loc[(kind, task), column] for task in METRICS)
                yield [f"{what}, {of}", *(f"{value:.2f}" for value in values)]

    return markdown(["", *METRICS], rows())


def dissociation() -> str:
    """D of every task at every number of heads, combined over seeds."""
    found = table(STUDY, "fractions").set_index(["task", "fraction"])
    fractions = sorted(found.index.unique("fraction"))
    rows = (
        [task, *(kept.dissociation(found.loc[(task, fraction)]) for fraction in fractions)]
        for task in (*METRICS, "mean")
    )
    return markdown(["task", *(f"D, {n}" for n in counts())], rows)


def specific() -> str:
    """What is left of each task with its heads by two rankings pruned, and D."""
    curves = table(STUDY, "pruning_curves").query("order != 'bottom'")
    left = curves.set_index(["task", "ranking", "fraction"])["value"]
    found = table(STUDY, "ranking_dissociation").set_index(["task", "ranking"])
    rankings = ("importance", "specific")

    def cells(task: str) -> Iterator[str]:
        for ranking in rankings:
            yield "" if task == "mean" else f"{100 * left.loc[(task, ranking, FRACTION)]:.0f}"
            yield kept.dissociation(found.loc[(task, ranking)])

    base = {task: f"{100 * left.loc[(task, 'importance', 0.0)]:.0f}" for task in METRICS} | {"mean": ""}
    names = [name for ranking in rankings for name in (f"{counts()[-1]} by `{ranking}`", "D")]
    return markdown(["task", "unpruned", *names], ([task, base[task], *cells(task)] for task in base))


def rankings() -> str:
    """What pruning by each ranking costs; with 13 heads pruned, mean D, tasks at chance, and D above 0."""
    found = table(STUDY, "ranking_dissociation")
    areas = table(STUDY, "pruning_areas").query(
        "task == 'mean' and order == 'top' and against == 'importance'"
    )

    def pruned_at_once(ranking: str) -> list[str]:
        of_tasks = found[found["ranking"] == ranking]
        if of_tasks.empty:
            return [""] * 3
        tasks, mean = of_tasks[of_tasks["task"] != "mean"], of_tasks[of_tasks["task"] == "mean"].iloc[0]
        away = tasks[~tasks["at_chance"] & (tasks["ci_low"] > 0) & (tasks["p_holm"] <= SIGNIFICANCE)]
        return [kept.dissociation(mean), str(tasks["at_chance"].sum()), str(len(away))]

    def rows() -> Iterator[list[str]]:
        yield ["`importance`", "", *pruned_at_once("importance")]
        for _, area in areas.sort_values("value").iterrows():
            apart = area["ci_low"] > 0 or area["ci_high"] < 0
            star = " *" if apart and area["p_holm"] <= SIGNIFICANCE else ""
            difference = points(area["value"], area["ci_low"], area["ci_high"]) + star
            yield [f"`{area['ranking']}`", difference, *pruned_at_once(area["ranking"])]

    head = ["ranking", "area less `importance`'s", "mean D", "at chance", "others with D above 0, corrected"]
    return markdown(head, rows())


def counts() -> list[int]:
    """Numbers of heads that are pruned for tasks."""
    return sorted({n for name, n in pruned().index if name in METRICS})


def figure() -> Figure:
    """The pruning matrix."""
    return matrix.draw(of_runs(STUDY, "pruning"), {}, [*METRICS], FRACTION, METRICS)


def _agreement_is_lower_with_tasks() -> bool:
    """In every column importance agrees less with another task than with another draw."""
    means = table(STUDY, "reliability").groupby(["kind", "task"])[["spearman", "top_overlap"]].mean()
    return bool((means.loc["tasks"] < means.loc["seeds"]).all(axis=None))


def _others_hurt_nearly_as_much() -> bool:
    """Other tasks' 13 heads cost a task at least three quarters of what its own cost, random ones less.

    Entailment is left out of the second.
    """
    means, n = pruned(), counts()[-1]
    base = means.loc["none"].iloc[0]
    random = means.loc[[(kind, n) for kind in RANDOM]]
    for task in METRICS:
        own, others = (
            means.loc[(task, n), task],
            means.loc[[(o, n) for o in METRICS if o != task], task].mean(),
        )
        if base[task] - others < 0.75 * (base[task] - own):
            return False
        if task != "entailment" and random[task].min() <= max(own, others):
            return False
    return random["entailment"].min() < means.loc[("entailment", n), "entailment"]


def _mean_is_small() -> bool:
    """Mean D is above 0 only with 13 heads, where seven of eight tasks are at chance."""
    found = table(STUDY, "fractions")
    mean, last = found[found["task"] == "mean"], found.query(f"task != 'mean' and fraction == {FRACTION}")
    most = mean["fraction"] == FRACTION
    return (
        sides(mean[most]) == {1}
        and sides(mean[~most]) == {0}
        and (last["at_chance"].sum(), len(last)) == (7, 8)
    )


def _five_heads() -> bool:
    """Question falls from 57 to 23 %, with other tasks' heads to 36 %; its D is not clear."""
    means, n = pruned(), counts()[1]
    others = means.loc[[(o, n) for o in METRICS if o != "question"], "question"].mean()
    values = (means.loc["none"].iloc[0]["question"], means.loc[("question", n), "question"], others)
    d = rows_of(table(STUDY, "fractions"), task="question")
    return [*map(rounded, values)] == [57, 23, 36] and sides(d) == {0}


def _single_heads_of_grammar() -> bool:
    """D of single heads is above 0 for grammar; three kinds share theirs.

    Pruned for any of these, a head leaves the same of each task.
    """
    found = table(STUDY, "fractions")
    grammar = found[found["task"].isin(list(METRICS)[4:]) & (found["fraction"] == found["fraction"].min())]
    runs = pd.concat(of_runs(STUDY, "pruning"), names=["seed"]).query("n_pruned == 1 and order == 'top'")
    each = runs.pivot_table(index=["seed", "task", "metric"], columns="pruned_for", values="value")
    same = each[["subject-verb", "anaphor", "irregular"]].nunique(axis=1).eq(1).all()
    other = (each["determiner-noun"] != each["anaphor"]).any()
    return sides(grammar) == {1} and bool(same and other)


def _draws_of_demonstrations() -> bool:
    """Draws agree least on the tasks whose demonstrations change with them."""
    agree = rows_of(table(STUDY, "reliability"), kind="seeds").groupby("task")["spearman"].mean()
    shown = [name for name, task in kept.config(STUDY)["tasks"].items() if task.get("shots")]
    return set(agree.nsmallest(len(shown)).index) == set(shown) and len(shown) == 2


def _specific_heads() -> bool:
    """With them four tasks stay above chance (by importance one), and three of grammar have a clear D.

    They cost six tasks less of their own, and D of no prompt is above 0.
    """
    found = table(STUDY, "ranking_dissociation").query("task != 'mean'")
    own, other = (rows_of(found, ranking=name).set_index("task") for name in ("specific", "importance"))
    clear = own[(own["ci_low"] > 0) & (own["p_holm"] < SIGNIFICANCE)]
    curves = table(STUDY, "pruning_curves").query(f"order != 'bottom' and fraction == {FRACTION}")
    left = curves.pivot_table(index="task", columns="ranking", values="value").loc[list(METRICS)]
    return (
        ((~own["at_chance"]).sum(), (~other["at_chance"]).sum()) == (4, 1)
        and set(clear.index) == {"subject-verb", "determiner-noun", "irregular"}
        and set(left.index[left["specific"] < left["importance"]]) == {"entailment", "irregular"}
        and sides(own.loc[list(METRICS)[:4]]) == {0}
    )


def _no_smaller_area() -> bool:
    """No ranking has a clearly smaller area than importance; of all tasks, it is within a point."""
    areas = rows_of(table(STUDY, "pruning_areas"), task="mean", order="top", against="importance")
    every = rows_of(areas, ranking="importance_all")
    return -1 not in sides(areas) and every["ci_low"].item() > -0.0105 and every["ci_high"].item() < 0.01


BLOCKS = {
    "decoders: harm": harm,
    "decoders: dissociation": dissociation,
    "decoders: draws": draws,
    "decoders: specific": specific,
    "decoders: rankings": rankings,
}
FIGURES = {"decoders.png": figure}
CLAIMS = {
    "decoders.draws": _agreement_is_lower_with_tasks,
    "decoders.others": _others_hurt_nearly_as_much,
    "decoders.mean": _mean_is_small,
    "decoders.five": _five_heads,
    "decoders.grammar": _single_heads_of_grammar,
    "decoders.demonstrations": _draws_of_demonstrations,
    "decoders.specific": _specific_heads,
    "decoders.areas": _no_smaller_area,
}
