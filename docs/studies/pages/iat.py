"""Numbers of IAT: does it help?"""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.variants import RETRAININGS
from headspec.plots.iat import draw_verdict
from headspec.statistics.comparison import power, seeds_needed
from headspec.statistics.intervals import Components
from pages.kept import markdown, points, table

STUDY = "iat-minilm"
#: the same without its sweep: what is left behind
AFTER = "iat-transfer"
#: unseen tasks, and the metric that is shown
MEASURED = {"trec": "accuracy", "mrpc": "accuracy"}
#: delta and alpha of the paper
PAPER = {"delta": 0.1, "alpha": 0.3}
#: effect that the study is to show, in points
EFFECT = 0.5


def means() -> pd.DataFrame:
    """The rows of the mean over tasks, by method."""
    found = table(STUDY, "improvement")
    return found[found["task"] == "mean"].set_index("method")


def effect(row: Any) -> str:
    """A difference with its interval; marked if it holds after correction over all variants."""
    return points(row["difference"], row["ci_low"], row["ci_high"]) + (
        " *" if row["p_seeds_holm"] < 0.05 else ""
    )


def verdict() -> str:
    """The answer, in words."""
    found = means()

    def of(method: str) -> str:
        return f"{100 * found.loc[method, 'difference']:+.1f}"

    iat, branched = found.loc["iat"], found[found["heads"].notna()]
    own = branched[branched["heads"] == "top"]
    later = own[own["delta"] > PAPER["delta"]]["difference"]
    significant = int((branched[branched["heads"] != "rewarmed"]["p_seeds_holm"] < 0.05).sum())
    return (
        f"After Holm's correction over all {len(branched)} variants, {significant or 'none'} is shown to "
        "differ from plain training with the same rates. At the paper's delta and alpha, IAT changes the "
        f"mean by {effect(iat)} points; training random heads by {of('iat-random')}, the least important "
        f"ones by {of('iat-bottom')}, another task's by {of('iat-other')}. At larger deltas the change is "
        f"{100 * later.min():+.1f} to {100 * later.max():+.1f}. Without dropout after the branch, as in the "
        f"released code, it is {of('iat-dropout-off')} with IAT and {of('no-dropout')} without.\n"
    )


def controls() -> str:
    """Every variant at the paper's delta and alpha."""
    found = means()
    at = (found["delta"] == PAPER["delta"]) & found["alpha"].isin([PAPER["alpha"]]) | found["alpha"].isna()
    found = found[at & (found["delta"] == PAPER["delta"])].sort_values("difference", ascending=False)

    def lines() -> Iterator[list[str]]:
        for method, row in found.iterrows():
            yield [f"`{method}`", row["against"], effect(row), f"{row['p_seeds']:.3f}"]

    return markdown(["variant", "minus", "points", "p"], lines())


def sweep() -> str:
    """IAT by delta and alpha, and plain training with the same rates."""
    found = means()
    own = found[found["heads"] == "top"].set_index(["delta", "alpha"])
    again = found[found["heads"] == "rewarmed"].set_index("delta")
    alphas = sorted(own.index.unique("alpha"))

    def lines() -> Iterator[list[str]]:
        for delta in sorted(own.index.unique("delta")):
            cells = [effect(own.loc[(delta, alpha)]) for alpha in alphas]
            yield [f"{delta:g}", f"{again.loc[delta, 'rate_share']:.2f}", *cells, effect(again.loc[delta])]

    head = ["delta", "share of rates", *(f"alpha {alpha:g}" for alpha in alphas), "`rewarmed` minus `tuned`"]
    return markdown(head, lines())


def answers() -> str:
    """What else is known of the study."""
    found = means()
    iat, alone = found.loc["iat"], found.loc["single"]
    parts = Components(*(100 * iat[f"sd_{name}"] for name in Components._fields))
    branched = int(found["heads"].notna().sum())
    seeds = int(iat["n_seeds"])

    def lines() -> Iterator[list[str]]:
        yield ["plain multi-task training, mean of the metrics", f"{100 * found.loc['tuned', 'value']:.1f}"]
        less = points(*alone[["difference", "ci_low", "ci_high"]])
        yield ["each task alone minus multi-task training", less]
        yield [
            f"power to show {EFFECT:g} points by IAT: one test; Holm over {branched} variants",
            f"{power(EFFECT, parts, seeds):.2f}; {power(EFFECT, parts, seeds, level=0.05 / branched):.2f}",
        ]
        yield [
            f"seeds needed for a power of 0.8, both (here: {seeds})",
            f"{seeds_needed(EFFECT, parts, 0.8) or 'never'}; "
            f"{seeds_needed(EFFECT, parts, 0.8, level=0.05 / branched) or 'never'}",
        ]

    return markdown(["", ""], lines())


def specialization() -> str:
    """D of every task before and after IAT."""
    found = table(AFTER, "specialization").sort_values("task", key=lambda task: task == "mean", kind="stable")

    def lines() -> Iterator[list[str]]:
        for _, row in found.iterrows():
            change = points(row["difference"], row["ci_low"], row["ci_high"])
            mark = " †" if row["at_chance"] else ""
            yield [row["task"], f"{100 * row['before']:+.1f}", f"{100 * row['after']:+.1f}", change + mark]

    return markdown(["task", "D after plain training", "D after IAT", "difference"], lines())


def transfer() -> str:
    """Unseen tasks from a few examples, by what the encoder learnt before."""
    found = table(AFTER, "transfer_summary").set_index(["task", "metric", "method"]).sort_index()

    others = ("iat", "iat-random", "pretrained")

    def lines() -> Iterator[list[str]]:
        for task, metric in MEASURED.items():
            rows = found.loc[(task, metric)]
            tuned = rows.loc["tuned"]
            less = rows.loc[[*others], ["difference", "difference_low", "difference_high"]]
            yield [
                f"{task} ({metric}, chance {100 * tuned['chance']:.1f})",
                f"{100 * tuned['value']:.1f}",
                *(points(*row) for row in less.to_numpy()),
            ]

    return markdown(["task", "`tuned`", *(f"`{method}` minus `tuned`" for method in others)], lines())


def figure() -> Figure:
    """Every variant's effect with its interval."""
    found = table(STUDY, "improvement")
    return draw_verdict(found, RETRAININGS.labels(found["heads"].dropna()))


BLOCKS = {
    f"{STUDY}: verdict": verdict,
    f"{STUDY}: controls": controls,
    f"{STUDY}: sweep": sweep,
    f"{STUDY}: answers": answers,
    f"{AFTER}: specialization": specialization,
    f"{AFTER}: transfer": transfer,
}
FIGURES = {"iat.png": figure}
