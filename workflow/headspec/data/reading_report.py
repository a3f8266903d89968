"""Report on reading a task: rows of each split, those left out and why, classes, and oddities."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from headspec.data import quality
from headspec.data.sources import readers
from headspec.errors import listing
from headspec.tasks import data

if TYPE_CHECKING:
    from headspec.config.sections.task import Task
    from headspec.data.prepare import Source, Split

#: why rows are left out of training, by the counts of `headspec.data.prepare.Prepared`
WHY = {
    "unlabelled": "have no label",
    "same": "have no two different texts",
    "blank": "have a word of white space",
    "empty": "have an empty text",
    "duplicate": "repeat the text of another row",
    "in_further": "have texts of a further split",
    "in_validation": "have texts of the validation split",
    "in_other_tasks": "have texts on which other tasks are evaluated",
    "held_out": "are held out for validation",
}
#: reasons that apply to all splits and are always reported before a run; others only if there are many
EVERYWHERE = ("unlabelled", "same", "blank")
#: maximum number of classes of a split in a line
SHOWN = 12


def facts(name: str, task: Task, counts: Mapping[str, Mapping[str, int]], source: Source | None) -> list[str]:
    """Return a line for each split of a task: its files, rows, those left out, and its classes.

    Parameters
    ----------
    counts : by split (train, validation, further ones), as in `Prepared`
    source : the source as read; None for pairs of another task's texts
    """
    files = readers.split_names(task, f"tasks.{name}") if source else {}
    held = source.by_split if source else {}
    return [
        f"tasks.{name}: {_rows(split, numbers, files.get(split))}{_classes(held.get(split))}"
        for split, numbers in counts.items()
    ]


def _rows(split: str, counts: Mapping[str, int], file: str | None) -> str:
    """Return how many rows of a split are used, and why the rest are not."""
    reasons = WHY if split == "train" else EVERYWHERE
    left_out = {why: counts[why] for why in reasons if counts.get(why)}
    what = quality.rows_of(split)
    if not counts["rows"]:
        return f"{counts['examples']} {what}, held out of those for training"
    read = counts["rows"] + sum(counts.get(why, 0) for why in EVERYWHERE)
    limited = read - sum(left_out.values()) - counts["examples"]
    reasons_told = [f"{n} {WHY[why]}" for why, n in left_out.items()]
    reasons_told += [f"{limited} are more than the task uses"] if limited > 0 else []
    why_not = f" ({', '.join(reasons_told)})" if reasons_told else ""
    return f"{counts['examples']} of {read} {what}{f' in {file}' if file else ''}{why_not}"


def _classes(split: Split | None) -> str:
    tally: dict[str, int] = split.quality.get("classes", {}) if split else {}
    return f"; {listing((f'{name} {n}' for name, n in tally.items()), SHOWN)}" if tally else ""


def odd(name: str, task: Task, source: Source) -> list[str]:
    """Return a line for each sign that the data of a task are not what the config intends.

    Lines are on splits that the config does not name, rows left out, classes without training rows, findings
    of the rules in `headspec.data.anomalies`, and warnings of `headspec.data.quality`.
    """
    key = f"tasks.{name}"
    return [
        *readers.notes(task, key),
        *_left_out(key, source),
        *_unused(key, task, source),
        *source.odd,
        *quality.task_warnings(name, source.quality),
    ]


def _left_out(key: str, source: Source) -> Iterator[str]:
    """Yield a line on rows that are left out, if there are many, or for a reason in `EVERYWHERE`."""
    for why in (*EVERYWHERE, "in_further", "in_validation"):
        at = f"{key}.unlabelled" if why == "unlabelled" else key
        for split, held in source.by_split.items():
            rows = held.counts["rows"] + sum(held.counts.get(other, 0) for other in EVERYWHERE)
            n = held.counts.get(why, 0)
            if n and (why in EVERYWHERE or n >= quality.MANY * rows):
                yield f"{at}: {n} of {rows} {quality.rows_of(split)} {WHY[why]} and are left out"


def _unused(key: str, task: Task, source: Source) -> Iterator[str]:
    """Yield a line on classes without training rows."""
    used = data.reader(task.type).tally(source.train.rows["label"])
    if unused := sorted({*source.names} - {*used}):
        yield f"{key}.label{'s' * bool(task.labels)}: no training row has {listing(unused)}"
