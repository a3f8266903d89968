"""Contents of views that are computed from tables rather than columns of one."""

import pandas as pd

from headspec.explorer.heads import GROUP
from headspec.explorer.study_tables import Columns, StudyTables, json_columns
from headspec.pipeline.commands import findings
from headspec.statistics.chance import MARKS, marks
from headspec.statistics.grouping.gains import between_pairs
from headspec.statistics.intervals import decisive, of_seeds

INTERVAL = ["ci_low", "ci_high", "ci_over", "p", "p_of"]
#: columns for the mark of each row
MARKED = ["mark", *MARKS]


def bounded(*names: str) -> list[str]:
    """Return column names, each followed by those of its interval's bounds."""
    return [column for name in names for column in (name, f"{name}_low", f"{name}_high")]


def decided(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table with `mark`, for values at chance, and if it has p-values, `p` and `p_of`.

    `p` is the corrected p-value that decides, and `p_of` its scope, `other seeds` or `these runs`.
    """
    frame = frame.assign(mark=marks(frame))
    names = [name for name in ("p", "difference_p", "dissociation_p") if f"{name}_seeds_holm" in frame]
    if not names:
        return frame
    about = of_seeds(frame).map({True: "other seeds", False: "these runs"})
    return frame.assign(**{name: decisive(frame, name) for name in names}, p_of=about)


def found(study: StudyTables) -> list[str]:
    """Return the findings of the study, as lines of its summary."""
    return findings.lines(study.tables)


def pruning(study: StudyTables) -> Columns:
    """Return each task's main metric under every mask: mean over seeds and draws, minimum and maximum.

    `n` is the largest number of examples.
    """
    metrics = study.table("dissociation")
    frames = [
        run.tables["pruning"].assign(model=run.model, mixture=run.mixture, method=run.method)
        for run in study.runs
        if "pruning" in run.tables
    ]
    if metrics is None or not frames:
        return {}
    main = metrics.drop_duplicates([*GROUP, "task"]).reindex(columns=[*GROUP, "task", "metric", "chance"])
    frame = pd.concat(frames, ignore_index=True).merge(main)
    keys = [*GROUP, "task", "metric", "chance", "pruned_for", "order", "fraction", "n_pruned"]
    groups = frame.groupby(keys, dropna=False)
    values = groups["value"].agg(["mean", "min", "max"]).assign(n=groups["n"].max()).reset_index()
    return json_columns(values, [*keys, "n", "mean", "min", "max"])


def similarity(study: StudyTables) -> Columns:
    """Return the similarity of tasks, without that of single subjects."""
    frame = study.table("similarity")
    names = ["model", "measure", "task_a", "task_b", "similarity", "between_seeds", "ci_low", "ci_high"]
    return {} if frame is None else json_columns(frame[frame["subject"].isna()], names)


def improvement(study: StudyTables) -> Columns:
    """Return changes by IAT and its controls, for all metrics of a task."""
    frame = study.table("improvement")
    names = [*GROUP, "task", "metric", "against", "n_seeds", "value", "difference", *INTERVAL]
    names += MARKED
    return {} if frame is None else json_columns(decided(frame), names)


def probes(study: StudyTables) -> Columns:
    """Return accuracy and selectivity of the best heads, for all labels of a task together."""
    frame = study.table("probes")
    if frame is None:
        return {}
    names = [*GROUP, "task", "n_seeds", *bounded("accuracy"), "control", *bounded("selectivity")]
    return json_columns(frame[frame["label"].isna() & (frame["heads"] == "best")], names)


def gains(study: StudyTables) -> Columns:
    """Return gains of tasks in pairs."""
    frame = study.table("gains")
    names = ["model", "source", "target", "metric", "n_seeds", "alone", "value", "difference", *INTERVAL]
    return {} if frame is None else json_columns(between_pairs(decided(frame)), [*names, *MARKED])


def gain_predictions(study: StudyTables) -> Columns:
    """Return gains that are predicted with one task held out."""
    frame = study.table("gain_predictions")
    if frame is None:
        return {}
    kept = (frame["held_out"] == 1) & frame["predicted"].notna()
    return json_columns(frame[kept], ["model", "predictor", "source", "target", "predicted"])
