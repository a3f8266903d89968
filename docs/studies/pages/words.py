"""Numbers of tasks on words."""

import itertools
from collections.abc import Iterator

from matplotlib.figure import Figure

from headspec.plots.gains import draw_sharing
from pages.kept import bullets, markdown, points, sides, table

#: tasks of the study of words, and the metric by which each is judged
WORDS = {"pos": "word_accuracy", "ner": "span_f1", "dep": "las", "con": "bracket_f1", "srl": "role_f1"}
#: what heads know: a group of runs, and the one that it is compared with; None is a task's own run alone
CHANGES = [
    ((None, "single"), "pretrained", "alone minus pretrained"),
    (("five", "tuned"), "pretrained", "all five minus pretrained"),
    (("five", "tuned"), "single", "all five minus alone"),
    (("five", "even"), "tuned", "`even` minus all five"),
    (("five", "iat"), "tuned", "`iat` minus all five"),
]

#: pruning methods whose gates learn without a target number of heads
METHODS = ("static", "dynamic")


def sharing(study: str) -> str:
    """What every task gains or loses beside each other task, and beside all."""
    found = table(study, "sharing")

    def cell(task: str, mixture: str, method: str) -> str:
        where = (found["mixture"] == mixture) & (found["method"] == method)
        row = found[where & (found["task"] == task) & (found["metric"] == WORDS[task])].iloc[0]
        return points(row["difference"], row["ci_low"], row["ci_high"])

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            alone = found[(found["mixture"] == task) & (found["metric"] == WORDS[task])]["value"].item()
            pairs = {other: pair(task, other) for other in WORDS if other != task}
            beside = [cell(task, pairs[other], "tuned") if other in pairs else "" for other in WORDS]
            together = [cell(task, "five", method) for method in ("tuned", "even", "iat")]
            yield [task, f"{100 * alone:.1f}", *beside, *together]

    names = set(found["mixture"])

    def pair(a: str, b: str) -> str:
        return next(name for name in (f"{a}+{b}", f"{b}+{a}") if name in names)

    return markdown(["task", "alone", *(f"with {o}" for o in WORDS), "all five", "`even`", "`iat`"], rows())


def gates(study: str) -> str:
    """The heads that static and dynamic gates keep, alone and together, and what they cost."""
    found, overlaps = (table(study, name) for name in ("budgets", "overlap"))
    found, overlaps = (frame[frame["fraction"].isna()] for frame in (found, overlaps))  # no target
    overlaps = overlaps[(overlaps["what"] == "tasks") & (overlaps["within"] == "mean")]

    def cell(task: str, mixture: str, method: str) -> str:
        where = (found["mixture"] == mixture) & (found["way"] == method) & (found["against"] == "whole")
        row = found[where & (found["task"] == task) & (found["metric"] == WORDS[task])].iloc[0]
        return f"{row['heads']:.0f}: {points(row['difference'], row['ci_low'], row['ci_high'])}"

    def rows() -> Iterator[list[str]]:
        for task, mixture in itertools.chain(
            zip(WORDS, WORDS, strict=True), ((task, "five") for task in WORDS)
        ):
            cells = [cell(task, mixture, method) for method in METHODS]
            yield [task, "alone" if task == mixture else "all five", *cells]
        cells = []
        for method in METHODS:
            row = overlaps[overlaps["way"] == method].iloc[0]
            mark = " *" if row["p_holm"] < 0.05 else ""
            cells.append(f"{row['jaccard']:.2f} ({row['jaccard_by_layer']:.2f}){mark}")
        yield ["in common", "alone", *cells]

    return markdown(["task", "trained", *(f"`{method}`" for method in METHODS)], rows())


def changes(study: str) -> str:
    """What the heads that knew most before training know after it."""
    found = table(study, "probe_changes")
    found = found[found["label"].isna() & (found["heads"] == "best")]

    def rows() -> Iterator[list[str]]:
        for task in WORDS:
            of_task = found[found["task"] == task].set_index(["mixture", "method", "before"])
            cells = []
            for (mixture, method), before, _ in CHANGES:
                row = of_task.loc[(mixture or task, method, before)]
                cells.append(points(row["change"], row["ci_low"], row["ci_high"]))
            yield [task, *cells]

    return markdown(["task", *(name for _, _, name in CHANGES)], rows())


def findings(study: str) -> str:
    """What the tables show, and no more."""
    found = table(study, "sharing")
    found = found[found["metric"] == found["task"].map(WORDS)]
    gained = found[(found["method"] != "single") & found["difference"].notna()]
    five = gained["mixture"] == "five"
    pairs = gained[~five]
    above, below = set(pairs["mixture"][pairs["ci_low"] > 0]), set(pairs["mixture"][pairs["ci_high"] < 0])
    together = gained[five & (gained["method"] == "tuned")]
    remedies = gained[five & (gained["method"] != "tuned")]
    reach = (gained["ci_high"] - gained["ci_low"]) / 2
    changed = table(study, "probe_changes")
    changed = changed[changed["label"].isna() & (changed["before"] == "pretrained")]
    changed = changed[changed["method"].isin(["single", "tuned"])]
    best, mean = (
        changed[(changed["heads"] == heads) & changed["mixture"].isin([*WORDS, "five"])]
        for heads in ("best", "mean")
    )
    return bullets(
        [
            f"*A pair helps one task and hurts the other*: of pairs, {sides(pairs)}; in "
            f"{len(above & below)} of {pairs['mixture'].nunique()} pairs one of each.",
            f"*Learning all five is worst*: all five minus alone, {sides(together)}; with `even` and `iat`, "
            f"{sides(remedies)}.",
            f"*Training makes heads lose what they know*: minus pretrained, of the heads that knew most, "
            f"{sides(best)}; of the mean head, {sides(mean)}.",
            f"Intervals of the first two reach {100 * reach.min():.1f} to {100 * reach.max():.1f} points to "
            "each side.",
        ]
    )


def figure(study: str) -> Figure:
    """Every task alone, in pairs and all together."""
    found = table(study, "sharing")
    return draw_sharing(found[found["model"] == "minilm"], WORDS)


BLOCKS = {
    "stemcell-minilm: sharing": lambda: sharing("stemcell-minilm"),
    "stemcell-minilm: changes": lambda: changes("stemcell-minilm"),
    "stemcell-minilm: gates": lambda: gates("stemcell-minilm"),
    "stemcell-minilm: findings": lambda: findings("stemcell-minilm"),
}
FIGURES = {"words.png": lambda: figure("stemcell-minilm")}
