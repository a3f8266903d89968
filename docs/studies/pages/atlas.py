"""Numbers of atlas.md on 144 heads."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.measures.heads import MEASURES
from headspec.plots.atlas import believe
from pages import kept
from pages.kept import markdown, points, rows_of, sides, table

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
    return believe.draw(found, MEASURES.labels(found["ranking"].unique()), sorted(found["mixture"].unique()))


def _rows(ranking: str) -> pd.DataFrame:
    """Means over tasks of a ranking, by mixture."""
    return rows_of(table(STUDY, "belief"), task="mean", ranking=ranking).set_index("mixture")


def _smallest_areas() -> bool:
    """In two of three pairs relevance and rescored importance have the two smallest areas.

    Intervals of their areas overlap importance's.
    """
    found = rows_of(table(STUDY, "belief"), task="mean")
    areas = found.pivot_table(index="mixture", columns="ranking", values="area")
    best = [set(row.nsmallest(2).index) == {"relevance", "rescored"} for _, row in areas.iterrows()]
    overlap = (
        _rows(name)["area_high"] > _rows("importance")["area_low"] for name in ("relevance", "rescored")
    )
    return sum(best) == 2 and all(each.all() for each in overlap)


def _sizes() -> bool:
    """Importance and relevance agree more with the size of ablation; gradient x activation, with ablation."""
    signed, size = (
        rows_of(table(STUDY, "belief"), task="mean").groupby("ranking")[column].mean()
        for column in ("ablation_spearman", "ablation_size_spearman")
    )
    apart = sides(_rows("gradient_x_activation"), "ablation_spearman") == {1}
    return (
        bool((size > 0.5 + signed)[["importance", "relevance"]].all())
        and apart
        and signed.idxmax() == "gradient_x_activation"
    )


def _ablation() -> bool:
    """Only for AG with SST-2 is single-head ablation not clearly better than random orders."""
    rows = _rows("ablation")
    unclear = [name for name in rows.index if sides(rows.loc[[name]], "difference") == {0}]
    return unclear == ["ag-and-sst2"]


def _confidence() -> bool:
    """Confidence beats random orders, but its D is not clear, and each of importance's areas is smaller."""
    rows = _rows("confidence")
    smaller = (_rows("importance")["area"] < rows["area"]).all()
    return sides(rows, "difference") == {-1} and sides(rows, "dissociation") == {0} and bool(smaller)


BLOCKS = {f"{STUDY}: belief": belief}
FIGURES = {"atlas.png": figure}
CLAIMS = {
    "atlas.areas": _smallest_areas,
    "atlas.sizes": _sizes,
    "atlas.ablation": _ablation,
    "atlas.confidence": _confidence,
}
