"""The first section of findings.md: what pruning matrices are made of."""

import functools
from typing import Any

import pandas as pd

import headspec
from pages import five_tasks
from pages.kept import bullets, markdown, of_runs, points, table

#: Li et al. (2023), the metric of each task (columns) without 30 % of heads for each (rows), and with all
PAPER = pd.DataFrame(
    [
        [58.23, 71.52, 61.39, 91.99, 85.32],
        [62.54, 69.43, 60.80, 91.54, 85.13],
        [59.29, 70.96, 57.50, 91.88, 86.35],
        [65.88, 76.28, 69.35, 80.01, 85.09],
        [69.50, 77.40, 73.96, 86.51, 82.45],
        [83.91, 87.64, 90.26, 94.50, 92.05],
    ],
    index=["MNLI", "QQP", "QNLI", "AG", "SST-2", "none"],
    columns=["MNLI", "QQP", "QNLI", "AG", "SST-2"],
)
#: study and method of the matrices that are kept: its name here
KEPT = {
    ("decoders", "prompted"): "prompts, eight tasks",
    ("decoders-tuned", "prompted"): "prompts, four tasks",
    ("decoders-tuned", "lora"): "adapters, four tasks",
}
#: main metrics, of which numbers of examples are right
ACCURACIES = "accuracy", "pair_accuracy"


def published() -> pd.DataFrame:
    """The paper's matrix, in the form of `headspec.decompose`."""
    rows = PAPER.rename_axis(index="pruned_for", columns="task").stack().rename("value").reset_index()
    return rows.assign(value=rows["value"] / 100, heads=43)


def counted(study: str, method: str) -> pd.DataFrame:
    """The matrices of a kept study, in the same form, with numbers of right answers."""
    frames = [frame.assign(seed=seed) for seed, frame in of_runs(study, "pruning", method).items()]
    rows = pd.concat(frames)
    rows = rows[rows["metric"].isin(ACCURACIES) & ((rows["order"] == "top") | (rows["pruned_for"] == "none"))]
    right = (rows["value"] * rows["n"]).round().astype(int)
    rows = rows.assign(right=right, heads=rows["n_pruned"].where(rows["pruned_for"] != "none"))
    return rows[["pruned_for", "task", "heads", "seed", "right", "n"]]


@functools.cache
def matrices() -> pd.DataFrame:
    """A row for each matrix and number of heads: shares and p of its parts, and mean D."""
    paper = headspec.decompose(published()).assign(name="the paper, BERT-base, five tasks")
    found = [paper.assign(d=f"+{five_tasks.PAPER}", above=False)]
    for (study, method), name in KEPT.items():
        fractions = table(study, "fractions").query("task == 'mean' and method == @method and fraction > 0")
        numbers = sorted(counted(study, method)["heads"].dropna().unique())
        by_heads = dict(zip(numbers, fractions.sort_values("fraction").itertuples(), strict=True))
        d = {
            heads: points(row.dissociation, row.ci_low, row.ci_high) + (" †" if row.at_chance else "")
            for heads, row in by_heads.items()
        }
        above = {heads: row.ci_low > 0 for heads, row in by_heads.items()}
        parts = headspec.decompose(counted(study, method)).assign(name=name)
        found.append(parts.assign(d=parts["heads"].map(d), above=parts["heads"].map(above)))
    keys, values = ["name", "heads", "d", "above"], ["share", "by_chance", "p_value"]
    rows = pd.concat(found).pivot_table(index=keys, columns="part", values=values, sort=False)
    rows.columns = [f"{part} {value}" for value, part in rows.columns]
    return rows.reset_index()


def parts() -> str:
    """Shares of the parts of every matrix."""

    def cells(row: dict[str, Any]) -> list[str]:
        shares = [f"{100 * row[f'{part} share']:.0f}" for part in ("source", "target")]
        own = f"{100 * row['own share']:.1f} ({100 * row['own by_chance']:.1f})"
        return [row["name"], f"{row['heads']:.0f}", *shares, own, f"{row['own p_value']:.3f}", row["d"]]

    head = ["matrix", "heads", "lists", "tasks", "own (by chance)", "p of own", "mean D"]
    return markdown(head, map(cells, matrices().to_dict("records")))


def findings() -> str:
    """What the matrices say."""
    rows = matrices()
    tasks = rows["target share"] > rows["source share"]
    clear = rows[rows["own p_value"] <= 0.05]

    def places(which: pd.DataFrame) -> str:
        pairs = zip(which["name"], which["heads"], strict=True)
        return ", ".join(f"{name} ({heads:.0f})" for name, heads in pairs)

    both = 100 * (rows["source share"] + rows["target share"])
    found = headspec.dissociate(published()).iloc[:-1]
    net = ", ".join(
        f"{row.task} {100 * row.dissociation:+.1f} and {100 * row.net:+.1f}" for row in found.itertuples()
    )
    curves = table("decoders", "pruning_curves").query("order == 'top' or order.isna()")
    means = curves.groupby(["ranking", "fraction"])["value"].mean()
    left = {
        ranking: (means[ranking, 0.05] - means[ranking, 1.0]) / (means[ranking, 0.0] - means[ranking, 1.0])
        for ranking in ("importance", "random")
    }
    return bullets([
        f"**Mostly tasks**: in {tasks.sum()} of {len(rows)} matrices tasks differ more in fragility than "
        f"lists in strength, in {(~tasks).sum()} the reverse. Both together are {both.min():.0f} to "
        f"{both.max():.0f} % of the sum of squares.",
        f"**A task's own heads** are {100 * rows['own share'].min():.0f} to "
        f"{100 * rows['own share'].max():.0f} %. That lists cost their own task more than others' do has p "
        f"at most 0.05, not corrected, in {len(clear)}: {places(clear)}. With an interval of mean D above 0, "
        f"they are [specific](statistics.md#specific) in {places(clear[clear['above']])}; the paper's has "
        f"none.",
        f"**Strong lists and fragile tasks do not explain the paper's finding**: D and `net`, D net of the "
        f"strength of the task's list, are {net}.",
        f"**Faithfulness**, prompts, eight tasks: without a task's 13 most important heads "
        f"{100 * left['importance']:.0f} % of what all heads contribute to the mean metric are left, without "
        f"13 random ones {100 * left['random']:.0f} % (no intervals, since answers are not kept).",
    ])  # fmt: skip


BLOCKS = {"findings: parts": parts, "findings: made-of": findings}
FIGURES: dict[str, Any] = {}
