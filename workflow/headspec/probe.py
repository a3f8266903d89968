"""The probe: the sentences on which the models of different tasks are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec.errors import DataError
from headspec.locate import locate
from headspec.seeds import derive
from headspec.tables import INT, TEXT, Schema

if TYPE_CHECKING:
    from headspec.study import Study

# task: whose validation text the sentence is; null for the user's own
PROBE = Schema({"example": INT, "text": TEXT, "task": TEXT}, keys=1)

FEWEST = 10  # sentences


def check(study: Study) -> None:
    """Read the user's own probe, if there is one, so that no job starts on one that will not do."""
    if study.similarity.probe is not None:
        from_file(study.similarity.probe, study.similarity.probe_sentences, study.data_seed)


def from_file(source: str, sentences: int, seed: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """The sentences of a text file, one a line: `sentences` of them, drawn by `seed`, where it has more.

    Returns
    -------
    frame : table 'probe', in the order of the file
    counts : lines, and of those empty, duplicate, and examples (sentences taken)
    """
    key = "similarity.probe"
    path = locate(source, key)
    if not path.is_file():
        raise DataError(f"{key}: '{source}' is a folder, expected a text file with one sentence a line")
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise DataError(f"{key}: '{source}' is not UTF-8 text ({error})") from None
    lines = [" ".join(line.split()) for line in lines]
    distinct = list(dict.fromkeys(filter(None, lines)))
    if len(distinct) < FEWEST:
        raise DataError(
            f"{key}: '{source}' has {len(distinct)} different sentences, expected at least {FEWEST}"
        )
    order = np.random.default_rng(derive(seed, "probe")).permutation(len(distinct))[:sentences]
    taken = [distinct[i] for i in sorted(order)]
    empty = lines.count("")
    counts = {
        "lines": len(lines), "empty": empty, "duplicate": len(lines) - empty - len(distinct),
        "examples": len(taken),
    }  # fmt: skip
    return pd.DataFrame({"example": range(len(taken)), "text": taken, "task": None}), counts


def from_tasks(
    validation: dict[str, pd.DataFrame], sentences: int, seed: int
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Sentences of the tasks' validation texts, as many of each task, `sentences` in all at most.

    Both texts of a pair count, each as a sentence of its own; empty ones do not. A sentence is taken once,
    also where several tasks have it (a pair task has those of the task that its pairs come from).

    Parameters
    ----------
    validation : task: table 'data' of its validation split

    Returns
    -------
    frame : table 'probe', the tasks' sentences in turn
    counts : task: sentences taken of it; and examples, their sum
    """
    pools: dict[str, list[str]] = {}
    for task, frame in validation.items():
        texts = pd.concat([frame["text_a"], frame["text_b"].dropna()]).drop_duplicates()
        texts = texts[texts.str.strip() != ""]
        order = np.random.default_rng(derive(seed, "probe", task)).permutation(len(texts))
        pools[task] = texts.iloc[order].tolist()
    taken: dict[str, str] = {}  # sentence: task
    each = sentences // len(pools)
    for task, pool in pools.items():
        taken |= dict.fromkeys([text for text in pool if text not in taken][:each], task)
    if len(taken) < FEWEST:
        raise DataError(
            f"similarity.probe: the validation texts give {len(taken)} sentences, expected at least {FEWEST}"
        )
    frame = pd.DataFrame({"text": list(taken), "task": list(taken.values())})
    frame.insert(0, "example", range(len(frame)))
    counts = {task: int((frame["task"] == task).sum()) for task in pools}
    return frame, counts | {"examples": len(frame)}
