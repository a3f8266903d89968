"""Numbers of translation.md: which heads of a translator can go."""

from collections.abc import Iterator
from typing import Any

import pandas as pd
from matplotlib.figure import Figure

from headspec.attention import KINDS
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.plots.gates import kept_kinds as plot
from pages.kept import config, markdown, points, rounded, rows_of, sides, table

#: studies, and the heads that can close in each
STUDIES = {"translation-heads": "all", "translation-encoder": "encoder"}
#: columns that say which heads are kept
CELL = ["way", "fraction", "penalty"]


def name(row: pd.Series, study: str) -> str:
    """A pruning method with its number of heads, or with the penalty that left them open."""
    if row["way"] == "whole" or pd.notna(row["fraction"]):
        return f"`{row['way']}`"
    penalty = config(study)["gates"]["penalty"] if pd.isna(row["penalty"]) else row["penalty"]
    return f"`{row['way']}`, penalty {penalty:g}"


def spread(ends: pd.Series, digits: int) -> str:
    """A difference with its interval; a difference of nothing has no sign."""
    value, low, high = (f"{end + 0.0:+.{digits}f}" for end in ends.astype(float).round(digits))
    return f"{value} [{low.removeprefix('+')}, {high.removeprefix('+')}]"


def ordered(rows: pd.DataFrame) -> Iterator[pd.Series]:
    """Rows by the number of heads that are kept, the whole model first."""
    by = rows.assign(least=-rows["heads"].round(1)).sort_values(["least", "way"])
    return (row for _, row in by.iterrows())


def budgets() -> str:
    """BLEU, and what is lost of the whole model's, of every pruning method and number of heads."""

    def rows() -> Iterator[list[str]]:
        for study, closing in STUDIES.items():
            found = table(study, "budgets")
            found = found[(found["metric"] == "bleu") & (found["task"] == "german")]
            whole = found["way"] == "whole" if closing == "all" else False  # the same in both
            for row in ordered(found[(found["against"] == "whole") | whole]):
                less = ""
                if row["way"] != "whole":
                    less = points(row["difference"], row["ci_low"], row["ci_high"])
                    less += " *" if row["p_holm"] < 0.05 else ""
                yield [closing, name(row, study), f"{row['heads']:.1f}", f"{100 * row['value']:.1f}", less]

    return markdown(["heads that can close", "method", "heads kept", "BLEU", "less `whole`"], rows())


def kinds() -> str:
    """Shares of each kind of attention that are kept, and where in the decoder."""

    def rows() -> Iterator[list[str]]:
        found = table("translation-heads", "kept_kinds")
        found = found[~found["way"].isin(["whole", "fresh"])]  # all heads, and those of `l0`
        for _, of_set in sorted(
            found.groupby(CELL, dropna=False), key=lambda group: -group[1]["heads"].iloc[0]
        ):
            alone = of_set[of_set["against"].isna()].set_index("kind")
            cross = of_set[of_set["kind"] == "cross"].set_index("against")
            shares = [f"{100 * alone.loc[kind, 'share']:.0f}" for kind in KINDS]
            more = [cross.loc[kind] for kind in ("encoder", "decoder")]
            yield [
                name(of_set.iloc[0], "translation-heads"),
                f"{alone['heads'].iloc[0]:.1f}",
                *shares,
                *(spread(100 * row[["share", "share_low", "share_high"]], 0) for row in more),
                spread(more[1][["depth", "depth_low", "depth_high"]], 1),
            ]

    head = ["method", "heads kept", *(f"{kind}, %" for kind in KINDS)]
    return markdown(
        [*head, "cross less encoder", "cross less decoder", "layers of cross less decoder"], rows()
    )


def figure() -> Figure:
    """Kinds of attention that are kept."""
    found = table("translation-heads", "kept_kinds")
    found = found[found["way"] != "fresh"]  # the heads of `l0`
    return plot.draw(found, PRUNING_METHODS.labels(list(dict.fromkeys(found["way"]))), tasks=[])


def _kinds(kind: str, against: str) -> pd.DataFrame:
    """A kind of attention less another, of every pruning method that chooses heads."""
    found = rows_of(table("translation-heads", "kept_kinds"), kind=kind, against=against)
    found = found[~found["way"].isin(["whole", "fresh"])]
    return found.assign(name=[name(row, "translation-heads") for _, row in found.iterrows()]).set_index(
        "name"
    )


def _clear(rows: pd.DataFrame, of: str) -> set[str]:
    """Names of the rows whose interval is above 0; None is below."""
    assert -1 not in sides(rows, of)
    return set(rows.index[rows[f"{of}_low"] > 0])


def _lost(way: str, **values: Any) -> pd.DataFrame:
    """BLEU of a pruning method less the whole model's."""
    study = values.pop("study", "translation-heads")
    return rows_of(table(study, "budgets"), metric="bleu", task="german", against="whole", way=way, **values)


def _encoder_first() -> bool:
    """Each method but random keeps fewer heads of the encoder than of either other kind."""
    return all(
        set(rows.index) - _clear(rows, "share") == {"`random`"}
        for rows in (_kinds("cross", "encoder"), _kinds("decoder", "encoder"))
    )


def _cross_last() -> bool:
    """Three methods keep clearly more of cross-attention than of the decoder's self-attention."""
    clear = _clear(_kinds("cross", "decoder"), "share")
    return clear == {"`l0`, penalty 0.01", "`rescored`", "`subset`"}


def _high_layers() -> bool:
    """Cross-attention is kept in higher layers than self-attention, where heads close and not at random."""
    rows = _kinds("cross", "decoder")
    return set(rows.index) - _clear(rows, "depth") == {"`random`", "`l0`, penalty 0.001"}


def _most_can_go() -> bool:
    """What is lost with 55 of 144 heads, and with 10 of the encoder's."""
    many, encoder = _lost("l0", penalty=0.01), _lost("l0", study="translation-encoder", fraction=0.2)
    ends = [rounded(-many[c].item(), 1) for c in ("difference", "ci_high", "ci_low")]
    heads = (many["heads"].item(), round(encoder["heads"].item()) - 96)
    lost = rounded(-encoder["difference"].item(), 1)
    return ends == [0.7, 0.1, 1.2] and heads == (55, 10) and sides(encoder) == {0} and lost == 0.5


def _none_beats_random() -> bool:
    """With 36 heads, methods are within the interval of random heads; gates below them, importance above."""
    random = _lost("random").iloc[0]
    lost = {way: _lost(way, fraction=0.25)["difference"].item() for way in ("l0", "subset", "importance")}
    inside = all(random["ci_low"] < each < random["ci_high"] for each in lost.values())
    return inside and max(lost["l0"], lost["subset"]) < random["difference"] < lost["importance"]


def _fresh_weights() -> bool:
    """From fresh weights, the heads of `l0` lose 0.7, less than each pruned model; less clearly than `l0`."""
    fresh = _lost("fresh").iloc[0]
    others = pd.concat(
        [_lost(way, fraction=0.25) for way in ("importance", "l0", "random", "rescored", "subset")]
    )
    ends = [rounded(-fresh[c], 1) for c in ("difference", "ci_high", "ci_low")]
    l0 = others.set_index("way").loc["l0"]
    return (
        ends == [0.7, 0.1, 1.4]
        and fresh["difference"] > others["difference"].max()
        and fresh["ci_low"] > l0["ci_high"]
    )


def _no_roles() -> bool:
    """No head of the whole models has a role."""
    counts = table("translation-heads", "role_counts")
    return set(counts["role"]) == {"positional", "rare word", "syntactic"} and not counts["before"].any()


BLOCKS = {"translation-heads: budgets": budgets, "translation-heads: kinds": kinds}
FIGURES = {"kept-kinds.png": figure}
CLAIMS = {
    "translation-heads.encoder": _encoder_first,
    "translation-heads.cross": _cross_last,
    "translation-heads.layers": _high_layers,
    "translation-heads.heads": _most_can_go,
    "translation-heads.random": _none_beats_random,
    "translation-heads.fresh": _fresh_weights,
    "translation-heads.roles": _no_roles,
}
