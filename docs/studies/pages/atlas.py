"""Numbers of rankings of 144 heads."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from headspec.config.measures.heads import MEASURES
from headspec.plots.atlas import rankings
from pages import kept
from pages.kept import bullets, markdown, points, table

STUDY = "ag-pair"


def belief() -> str:
    """Every ranking of heads: area and dissociation by mixture, and agreement with ablation."""
    found = table(STUDY, "belief")
    found = found[(found["task"] == "mean") & (found["ranking"] != "random")]
    found = found.rename(columns={"dissociation_low": "ci_low", "dissociation_high": "ci_high"})
    found = found.set_index(["ranking", "mixture"])
    mixtures = sorted(found.index.unique("mixture"))
    areas = found["difference"].unstack()[mixtures].mean(axis=1).sort_values()

    def area(row: Any) -> str:
        return points(row["difference"], row["difference_low"], row["difference_high"])

    def lines() -> Iterator[list[str]]:
        for ranking in areas.index:
            rows = [found.loc[(ranking, mixture)] for mixture in mixtures]
            shared = rows[0]["dissociation"] != rows[0]["dissociation"]
            dissociation = ["" if shared else kept.dissociation(row) for row in rows]
            like = found.loc[ranking][["ablation_spearman", "ablation_size_spearman"]].mean()
            agreement = ["" if value != value else f"{value:.2f}" for value in like]
            yield [f"`{ranking}`", *map(area, rows), *dissociation, *agreement]

    columns = [f"{name}, {mixture}" for name in ("area", "D") for mixture in mixtures]
    return markdown(["ranking", *columns, "like ablation", "like its size"], lines())


def findings() -> str:
    """What the table shows, and no more."""
    found = table(STUDY, "belief")
    found = found[(found["task"] == "mean") & (found["ranking"] != "random")].set_index("ranking")
    like = found[["ablation_spearman", "ablation_size_spearman"]].groupby("ranking").mean()
    signed, sized = (f"`{like[name].idxmax()}` ({like[name].max():.2f})" for name in like)
    within = found["difference_low"].le(0) & found["difference_high"].ge(0)
    unclear = ", ".join(f"`{name}`" for name in dict.fromkeys(found.index[within]))
    above = (
        found["dissociation_low"]
        .gt(0)
        .groupby("ranking", sort=False)
        .sum()[found["dissociation"].groupby("ranking", sort=False).count() > 0]
    )
    counts = ", ".join(
        f"`{name}` {n}" for name, n in above.sort_values(ascending=False, kind="stable").items()
    )
    return bullets(
        [
            f"Most like ablation: {signed}; most like its size: {sized}.",
            f"In some pair the interval of the area contains 0: {unclear}.",
            f"Of three pairs, the interval of D is above 0 in: {counts}.",
        ]
    )


def figure() -> Figure:
    """Every ranking in the form of the atlas."""
    found = table(STUDY, "belief")
    return rankings.draw_belief(
        found, MEASURES.labels(found["ranking"].unique()), sorted(found["mixture"].unique())
    )


BLOCKS = {f"{STUDY}: belief": belief, f"{STUDY}: findings": findings}
FIGURES = {"atlas.png": figure}
