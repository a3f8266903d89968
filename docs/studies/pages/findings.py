"""The first table of findings.md: what holds of the paper's findings."""

from typing import Any

from headspec.statistics.resampling import holm
from pages import five_tasks, iat, kept
from pages.kept import markdown, points, table

#: what the paper says, by question
PAPER = {
    "ten pairs of tasks": "double in ten, distinct in four (BERT-base)",
    "tuned minus frozen, mean D": "+6.3",
    "pairs across paradigms minus others, mean D": "above 0",
    "five tasks at once, D": f"all above 0, mean {five_tasks.PAPER}",
    "similar tasks dissociate less": "r < 0 by four measures",
    "metric with IAT minus without": "+0.76 (GLUE, mean of five models), CoLA +3.6",
    "mean D with IAT minus without": "above 0",
    "few-shot metric with IAT minus without": "SciTail, IMDB: numbers not read",
}


def iat_answers() -> list[str]:
    """What IAT changes: the metrics, dissociation and transfer."""
    after = table(iat.AFTER, "specialization").query("task == 'mean'").iloc[0]
    transfer = table(iat.AFTER, "transfer_summary").query("method == 'iat'").set_index(["task", "metric"])

    def unseen(task: str, metric: str) -> str:
        row = transfer.loc[(task, metric)]
        return f"{task} {points(row['difference'], row['difference_low'], row['difference_high'])}"

    change = points(after["difference"], after["ci_low"], after["ci_high"])
    return [
        iat.effect(iat.means().loc["iat"]),
        change + (" †" if after["at_chance"] else ""),
        ", ".join(unseen(*each) for each in iat.MEASURED.items()),
    ]


def answers(study: str) -> list[str]:
    """What a study of five tasks found, question by question."""
    combined, contrasts = table(study, "combined"), table(study, "contrasts")
    rows_of = five_tasks.rows_of
    pairs = rows_of(combined, task="mean", method="tuned")
    pairs = pairs[pairs["mixture"].isin(five_tasks.PAIRS)]
    counts = pairs["case"].value_counts()
    order = ("double", "single", "inverted", "none", "chance")
    cases = ", ".join(f"{counts[case]} {case}" for case in order if case in counts)
    return [
        f"{cases}; {int(pairs['distinct'].sum())} distinct; {int(pairs['at_chance'].sum())} †",
        five_tasks.tuning(study),
        five_tasks.contrast(rows_of(contrasts, mixture="across paradigms", method="tuned").iloc[0]),
        at_once(rows_of(combined, mixture="five", method="tuned")),
        similarity(table(study, "correlation").set_index("measure")),
    ]


def at_once(rows: Any) -> str:
    """D of each of five tasks."""
    by_task = rows.set_index("task").loc[[*five_tasks.TASKS]]
    return ", ".join(f"{task} {kept.dissociation(row)}" for task, row in by_task.iterrows())


def similarity(found: Any) -> str:
    """By how many measures D falls with similarity, and by those that are tested alone."""
    below = int((found["pearson_r"] < 0).sum())
    small = int(((found["pearson_r"] < 0) & (found["p_mantel"] < 0.05)).sum())
    holds = int((holm(found["p_mantel"]) < 0.05).sum())
    alone = ", ".join(
        f"`{name}` r {found['pearson_r'][name]:.2f}, p {found['p_mantel'][name]:.3f}"
        for name in five_tasks.EXPECTED
    )
    return (
        f"r < 0 by {below} of {len(found)} measures, p < 0.05 by {small}, after Holm by {holds}; "
        f"alone {alone}"
    )


def paper() -> str:
    """The paper's findings beside those here."""
    bge, minilm = (answers(study) for study in five_tasks.STUDIES.values())
    columns = [*bge, *["not run"] * 3], [*minilm, *iat_answers()]
    return markdown(["", "paper", *five_tasks.STUDIES], zip(PAPER, PAPER.values(), *columns, strict=True))


BLOCKS = {"findings: paper": paper}
FIGURES: dict[str, Any] = {}
