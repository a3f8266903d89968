"""Numbers of atlas.md on 144 heads."""

from collections.abc import Iterator
from typing import Any

from matplotlib.figure import Figure

from headspec.config.measures.heads import MEASURES
from headspec.plots.atlas import rankings
from pages import kept
from pages.kept import markdown, points, table

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
        apart = row["difference_low"] > 0 or row["difference_high"] < 0
        star = " *" if apart and row["difference_p_holm"] < 0.05 else ""
        return points(row["difference"], row["difference_low"], row["difference_high"]) + star

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


def figure() -> Figure:
    """Every ranking in the form of the atlas."""
    found = table(STUDY, "belief")
    return rankings.draw_belief(
        found, MEASURES.labels(found["ranking"].unique()), sorted(found["mixture"].unique())
    )


BLOCKS = {f"{STUDY}: belief": belief}
FIGURES = {"atlas.png": figure}
