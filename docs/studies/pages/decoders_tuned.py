"""Numbers of decoders.md on the model that is tuned."""

from collections.abc import Callable, Iterator

from matplotlib.figure import Figure

from pages import kept
from pages.decoders import FRACTION, METRICS, counts, pruned
from pages.kept import markdown, points, rows_of, sides, table

TUNED = "decoders-tuned"
TUNINGS = "prompted", "lora"


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

    return markdown(["method", *(f"mean D, {n}" for n in counts())], rows())


def _tuned_heads_differ() -> bool:
    """But for topic, rankings by both methods agree by 0.46 to 0.52, of two prompts by 0.47 to 0.51."""
    means = table(TUNED, "reliability").groupby(["kind", "method", "task"])["spearman"].mean()
    methods = means.loc[("methods", "prompted")]
    ends = [methods.drop("topic"), means.loc[("tasks", "prompted")]]
    rest = methods["topic"] > ends[1].max()
    return [(round(e.min(), 2), round(e.max(), 2)) for e in ends] == [(0.46, 0.52), (0.47, 0.51)] and rest


def _tuned_tasks_agree() -> bool:
    """After tuning, each task's ranking agrees more with the other tasks'."""
    means = (
        table(TUNED, "reliability").groupby(["kind", "method", "task"])[["spearman", "top_overlap"]].mean()
    )
    return bool((means.loc[("tasks", "lora")] > means.loc[("tasks", "prompted")]).all(axis=None))


def _tuned_few_heads() -> bool:
    """Mean D of the tuned model is above 0 with 1 and 5 heads, over half of it from tasks at chance."""
    found = rows_of(table(TUNED, "fractions"), method="lora")
    means, tasks = found[found["task"] == "mean"], found[found["task"] != "mean"]
    few = means["fraction"] < FRACTION
    sums = tasks[tasks["fraction"] < FRACTION].groupby(["fraction", "at_chance"])["dissociation"].sum()
    most = (sums.xs(True, level="at_chance") > sums.groupby("fraction").sum() / 2).all()
    return sides(means[few]) == {1} and 1 not in sides(means[~few]) and bool(most)


def _tuned_at_chance() -> bool:
    """With 13 heads pruned, all tasks are at chance by both methods."""
    found = table(TUNED, "fractions").query("task != 'mean'")
    return bool(found[found["fraction"] == FRACTION]["at_chance"].all())


BLOCKS = {"decoders: tuned": tuned, "decoders: tuned-dissociation": tuned_dissociation}
#: the page has none of it
FIGURES: dict[str, Callable[[], Figure]] = {}
CLAIMS = {
    "decoders.methods": _tuned_heads_differ,
    "decoders.tuned": _tuned_tasks_agree,
    "decoders.few": _tuned_few_heads,
    "decoders.chance": _tuned_at_chance,
}
