"""Which heads of a translator can go."""

from collections.abc import Iterator

import pandas as pd
from matplotlib.figure import Figure

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.head_arrays import KINDS
from headspec.plots.kept_heads import draw_kept_kinds
from pages.kept import bullets, config, markdown, points, table

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
                yield [closing, name(row, study), f"{row['heads']:.1f}", f"{100 * row['value']:.1f}", less]

    return markdown(["heads that can close", "method", "heads kept", "BLEU", "minus `whole`"], rows())


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
        [*head, "cross minus encoder", "cross minus decoder", "layers of cross minus decoder"], rows()
    )


def findings() -> str:
    """What the tables show, and no more."""
    lost = _minus("whole", "translation-heads"), _minus("whole", "translation-encoder")
    few = {method: rows[rows["fraction"].notna()] for method, rows in lost[0].groupby("way")}
    pruned = pd.concat([rows for method, rows in few.items() if method != "fresh"])
    penalty = lost[0][lost[0]["heads"].round() == 55].iloc[0]
    encoder = lost[1][lost[1]["fraction"].notna()].iloc[0]
    least, most = -100 * pruned["difference"].max(), -100 * pruned["difference"].min()
    others = _minus("importance", "translation-heads")
    others = others[others["way"] != "fresh"].sort_values("way")
    minus = ", ".join(f"`{row['way']}` {_interval(row)}" for _, row in others.iterrows())
    return bullets(
        [
            "**Cross-attention stays rather than encoder self-attention** (as in Voita et al.): the interval "
            f"is above 0 in {_above('share', 'encoder')} rows.",
            "**Cross-attention stays rather than decoder self-attention** (as in Voita et al.): in "
            f"{_above('share', 'decoder')} rows.",
            "**Kept cross-attention is in higher layers** than kept decoder self-attention: in "
            f"{_above('depth', 'decoder')} rows.",
            f"**BLEU minus the whole model**: {_interval(penalty)} with 55 of 144 heads, "
            f"{_interval(encoder)} with 10 of the 48 encoder heads and all others (Voita et al.: -0.15).",
            f"**Methods with 36 heads minus `importance`**: {minus}.",
            f"**`fresh`** minus the whole model: {_interval(few['fresh'].iloc[0])}; models pruned to "
            f"36 heads lose {least:.1f} to {most:.1f} (in Voita et al., fresh ones lose more). No other 36 "
            "heads were trained from fresh weights, so whether these matter is open.",
        ]
    )


def _minus(other: str, study: str) -> pd.DataFrame:
    """Rows of BLEU of a study that are compared with a method."""
    found = table(study, "budgets")
    return found[(found["metric"] == "bleu") & (found["task"] == "german") & (found["against"] == other)]


def _interval(row: pd.Series) -> str:
    return points(row["difference"], row["ci_low"], row["ci_high"])


def _above(column: str, other: str) -> str:
    """Methods by which the `column` of cross-attention is above that of `other`, of all."""
    found = table("translation-heads", "kept_kinds")
    found = found[~found["way"].isin(["whole", "fresh"])]
    found = found[(found["kind"] == "cross") & (found["against"] == other)]
    found = found.sort_values("heads", ascending=False, kind="stable")
    above = [name(row, "translation-heads") for _, row in found[found[f"{column}_low"] > 0].iterrows()]
    return f"{len(above)} of {len(found)} ({'; '.join(above)})"


def figure() -> Figure:
    """Kinds of attention that are kept."""
    found = table("translation-heads", "kept_kinds")
    found = found[found["way"] != "fresh"]  # the heads of `l0`
    return draw_kept_kinds(found, PRUNING_METHODS.labels(list(dict.fromkeys(found["way"]))), tasks=[])


BLOCKS = {
    "translation-heads: budgets": budgets,
    "translation-heads: kinds": kinds,
    "translation-heads: findings": findings,
}
FIGURES = {"kept-kinds.png": figure}
