"""Numbers of prompted decoders."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.plots.dissociation import draw_matrix
from headspec.statistics.resampling import SIGNIFICANCE
from pages import kept
from pages.kept import bullets, markdown, of_runs, points, sides, table

STUDY, TUNED = "decoders", "decoders-tuned"
TUNINGS = "prompted", "lora"
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
    base, counts = means.loc["none"].iloc[0], _counts()

    def rows() -> Iterator[list[str]]:
        for task in METRICS:
            own = [means.loc[(task, n), task] for n in counts]
            others = [means.loc[[(o, n) for o in METRICS if o != task], task].mean() for n in counts]
            random = [means.loc[(kind, counts[-1]), task] for kind in RANDOM]
            values = (base[task], *own, *others, *random)
            yield [task, *(f"{100 * value:.0f}" for value in values)]

    head = ["task", "unpruned", *(f"{whose} {n}" for whose in ("own", "others'") for n in counts)]
    return markdown([*head, f"random {counts[-1]}", "prompts' layers"], rows())


def dissociation() -> str:
    """D of every task at every number of heads, combined over seeds."""
    found = table(STUDY, "fractions").set_index(["task", "fraction"])
    fractions = sorted(found.index.unique("fraction"))
    rows = (
        [task, *(kept.dissociation(found.loc[(task, fraction)]) for fraction in fractions)]
        for task in (*METRICS, "mean")
    )
    return markdown(["task", *(f"D, {n}" for n in _counts())], rows)


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
    names = [name for ranking in rankings for name in (f"{_counts()[-1]} by `{ranking}`", "D")]
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
        away = tasks[~tasks["at_chance"] & (tasks["ci_low"] > 0)]
        return [kept.dissociation(mean), str(tasks["at_chance"].sum()), str(len(away))]

    def rows() -> Iterator[list[str]]:
        yield ["`importance`", "", *pruned_at_once("importance")]
        for _, area in areas.sort_values("value").iterrows():
            star = " *" if area["p_seeds_holm"] < SIGNIFICANCE else ""
            difference = points(area["value"], area["ci_low"], area["ci_high"]) + star
            yield [f"`{area['ranking']}`", difference, *pruned_at_once(area["ranking"])]

    others = "others with the interval of D above 0"
    return markdown(["ranking", "area minus `importance`'s", "mean D", "at chance", others], rows())


def tuned() -> str:
    """The tasks of prompts as they are prompted and tuned: accuracy, and agreement of importance."""
    columns = ["spearman", "top_overlap"]
    means = table(TUNED, "reliability").groupby(["kind", "method", "task"])[columns].mean()
    base = {method: pruned(TUNED, method).loc["none"].iloc[0] for method in TUNINGS}

    def row(task: str) -> Iterator[str]:
        for method in TUNINGS:
            yield f"{100 * base[method][task]:.0f}"
        for kind, of in (("seeds", TUNINGS), ("tasks", TUNINGS), ("methods", TUNINGS[:1])):
            for method in of:
                yield ", ".join(f"{value:.2f}" for value in means.loc[(kind, method, task), columns])

    names = [f"{what}, `{method}`" for what in ("unpruned", "two seeds", "two tasks") for method in TUNINGS]
    return markdown(["task", *names, "two methods"], ([task, *row(task)] for task in list(METRICS)[:4]))


def tuned_dissociation() -> str:
    """Mean D of both, and the difference at the main number of heads."""
    found = table(TUNED, "fractions").query("task == 'mean'").set_index(["method", "fraction"])
    fractions = sorted(found.index.unique("fraction"))
    contrast = table(TUNED, "contrasts").iloc[0]

    def rows() -> Iterator[list[str]]:
        for method in TUNINGS:
            yield [f"`{method}`", *(kept.dissociation(found.loc[(method, part)]) for part in fractions)]
        difference = points(contrast["difference"], contrast["ci_low"], contrast["ci_high"])
        mark = " †" if contrast["n_at_chance"] else ""
        yield ["difference", *[""] * (len(fractions) - 1), difference + mark]

    return markdown(["method", *(f"mean D, {n}" for n in _counts())], rows())


def _counts() -> list[int]:
    """Numbers of heads that are pruned for tasks."""
    return sorted({n for name, n in pruned().index if name in METRICS})


def findings() -> str:
    """What pruning shows, and no more."""
    found, means, most = table(STUDY, "fractions"), pruned(), _counts()[-1]
    tasks = found[found["task"] != "mean"]
    others = {t: means.loc[[(o, most) for o in METRICS if o != t], t].mean() for t in METRICS}
    more = [sum(means.loc[(kind, most), t] > others[t] for t in METRICS) for kind in RANDOM]
    alike = table(STUDY, "reliability").groupby(["kind", "task"])["spearman"].mean()
    ranges = [f"{alike[kind].min():.2f} to {alike[kind].max():.2f}" for kind in ("seeds", "tasks")]
    by_number = "; ".join(
        f"{n}: {sides(rows)}, {int(rows['at_chance'].sum())} at chance"
        for n, (_, rows) in zip(_counts(), tasks.groupby("fraction"), strict=True)
    )
    return bullets(
        [
            f"**Importance**: two draws of a task correlate by {ranges[0]}, two tasks of a draw by "
            f"{ranges[1]} (Spearman).",
            f"**D of tasks**, by the number of heads pruned: {by_number}.",
            f"**Random heads**: without {most} of them, {more[0]} of {len(METRICS)} tasks keep more than "
            f"without other tasks' {most}; {more[1]} do if the random heads are of the same layers. "
            "[*Different Heads, Same Fragile Tasks* (2026)](https://openreview.net/forum?id=OaVF3mtujz) "
            "reports this for larger models.",
        ]
    )


def specific_findings() -> str:
    """What heads that a task needs more than others do, and no more."""
    curves = table(STUDY, "pruning_curves").query("order == 'top'")
    left = curves[(curves["fraction"] - FRACTION).abs() < 1e-9].set_index(["task", "ranking"])["value"]
    better = [t for t in METRICS if left[t, "specific"] > left[t, "importance"]]
    areas = table(STUDY, "pruning_areas").query(
        "task == 'mean' and order == 'top' and against == 'importance'"
    )
    return bullets(
        [
            f"Without its specific heads, a task keeps more than without its important ones in {len(better)} "
            f"of {len(METRICS)} tasks (not {' and '.join(t for t in METRICS if t not in better)}).",
            f"Areas minus that of `importance`: {sides(areas)}.",
        ]
    )


def figure() -> Figure:
    """The pruning matrix."""
    return draw_matrix(of_runs(STUDY, "pruning"), {}, [*METRICS], FRACTION, METRICS)


BLOCKS = {
    "decoders: harm": harm,
    "decoders: dissociation": dissociation,
    "decoders: findings": findings,
    "decoders: specific-findings": specific_findings,
    "decoders: specific": specific,
    "decoders: rankings": rankings,
    "decoders: tuned": tuned,
    "decoders: tuned-dissociation": tuned_dissociation,
}
FIGURES = {"decoders.png": figure}
