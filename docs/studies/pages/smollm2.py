"""What the heads of SmolLM2-135M do, from the tables that docs/studies/smollm2.py writes."""

from collections.abc import Callable, Iterator

import pandas as pd
from scipy.stats import spearmanr

from pages.kept import STUDIES, bullets, markdown

BEHAVIOURS = {
    "induction": "induction", "previous_token": "previous token", "duplicate_token": "duplicate token",
    "first_token": "first token", "retrieval": "retrieval", "function_vector": "function vector",
}  # fmt: skip
LISTS = {
    "induction": "induction", "previous_token": "previous token", "duplicate_token": "duplicate token",
    "function_vector": "function vector", "gradient, copying": "`gradient`, copying",
    "gradient, tasks": "`gradient`, tasks",
}  # fmt: skip
PRECISIONS = "bfloat16", "int8", "nf4"
TOP = 13  # 5 % of the heads


def table(name: str) -> pd.DataFrame:
    """A table of the script."""
    return pd.read_csv(STUDIES / "smollm2" / f"{name}.csv")


def name(head: pd.Series) -> str:
    """A head, such as 18.6."""
    return f"{head['layer']:.0f}.{head['head']:.0f}"


def behaviours() -> str:
    """The five heads of each behaviour with the largest scores, and how many are above their control."""
    found = table("behaviours")

    def rows() -> Iterator[list[str]]:
        for key, words in BEHAVIOURS.items():
            here = found[found["behaviour"] == key]
            top = here.nlargest(5, "score")
            heads = [f"{name(row)} {row['score']:.2f} ({row['control']:z.2f})" for _, row in top.iterrows()]
            above = "*not run*" if here["above"].isna().any() else str(int(here["above"].astype(bool).sum()))
            yield [words, above, ", ".join(heads)]

    return markdown(["behaviour", "heads above their control", "largest scores (control)"], rows())


def closed() -> str:
    """What second halves and copied words lose without five heads."""
    found, written = table("closed"), table("written")
    none = found[found["list"] == "none"].iloc[0]
    random = found[found["list"] == "random"]
    copied = written[written["order"] == "none"].iloc[0]
    drawn = written[written["order"] == "random"]

    def share(row: pd.Series) -> str:
        return f"{row['value']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"

    def spread(rows: pd.DataFrame) -> str:
        values = rows["accuracy"]
        return f"{values.mean():.2f} [{values.min():.2f}, {values.max():.2f}]"

    def rows() -> Iterator[list[str]]:
        yield ["none", f"{none['loss']:.2f}", f"{none['accuracy']:.2f}", "", share(copied)]
        yield ["random", f"{random['loss'].mean():.2f}", spread(random), "", share(drawn.iloc[0])]
        for key, words in LISTS.items():
            here = found[found["list"] == key]
            own, same = here[here["heads"] == "own"].iloc[0], here[here["heads"] != "own"]
            top = written[(written["list"] == key) & (written["order"] == "top")].iloc[0]
            yield [words, f"{own['loss']:.2f}", f"{own['accuracy']:.2f}", spread(same), share(top)]

    head = ["closed", "loss", "repeated tokens right", "random heads of the same layers", "words copied"]
    return markdown(head, rows())


def scores(precision: str, data: str, half: int | None = None) -> pd.Series:
    """Importance of heads, (layer, head)."""
    found = table("rankings").query("precision == @precision and data == @data")
    rows = found if half is None else found[found["half"] == half]
    return rows.groupby(["layer", "head"])["score"].mean()


def agreement() -> str:
    """How rankings by rounded weights agree with those by float32, beside two halves of the examples."""

    def compared(one: pd.Series, other: pd.Series) -> list[str]:
        shared = len({*one.nlargest(TOP).index} & {*other.nlargest(TOP).index})
        return [f"{spearmanr(one, other).statistic:.2f}", f"{shared} of {TOP}"]

    def rows() -> Iterator[list[str]]:
        for precision in PRECISIONS:
            pairs = [(scores(precision, data), scores("float32", data)) for data in ("copying", "tasks")]
            yield [precision, *(value for pair in pairs for value in compared(*pair))]
        pairs = [(scores("float32", data, 0), scores("float32", data, 1)) for data in ("copying", "tasks")]
        yield ["float32, halves of the examples", *(value for pair in pairs for value in compared(*pair))]

    return markdown(["weights", "copying", "heads in both top 13", "tasks", "heads in both top 13"], rows())


def missed() -> str:
    """Where importance ranks the heads of each behaviour."""
    found, lines = table("behaviours"), []
    for data in ("copying", "tasks"):
        ranks = scores("float32", data).rank(ascending=False)
        for key in ("induction", "function_vector"):
            here = found[found["behaviour"] == key].set_index(["layer", "head"])["score"]
            top = ranks[here.nlargest(5).index].astype(int).tolist()
            rho = spearmanr(ranks, -here[ranks.index]).statistic
            places = f"{', '.join(map(str, top[:-1]))} and {top[-1]} of {len(ranks)}"
            lines.append(
                f"`gradient` of {data} ranks the five first {BEHAVIOURS[key]} heads {places} "
                f"(Spearman {rho:.2f} over all)."
            )
    return bullets(lines)


BLOCKS: dict[str, Callable[[], str]] = {
    "smollm2: behaviours": behaviours,
    "smollm2: closed": closed,
    "smollm2: agreement": agreement,
    "smollm2: missed": missed,
}
FIGURES: dict[str, Callable] = {}
