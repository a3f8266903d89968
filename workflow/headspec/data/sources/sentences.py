"""The sentences on which models are compared."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from headspec.config.sources import locate
from headspec.data.sources import text_files
from headspec.errors import DataError
from headspec.seeds import derive
from headspec.tables import INT, TEXT, Schema

if TYPE_CHECKING:
    from headspec.config.study import Study

SENTENCES = Schema(
    {"example": INT, "text": TEXT, "task": TEXT},
    keys=1,
    paths=("similarity/sentences.parquet",),
    about={
        "task": "task whose validation text it is; null for your own",
    },
)

FEWEST = 10  # sentences


def check_sentences(study: Study) -> None:
    """Raise DataError if the user's file of sentences is invalid."""
    if study.similarity.sentences is not None:
        from_file(study.similarity.sentences, study.similarity.max_sentences, study.data_seed)


def from_file(source: str, sentences: int, seed: int) -> tuple[pd.DataFrame, dict[str, int]]:
    """Draw at most `sentences` distinct lines of a text file at random; raise DataError if it has too few.

    Return the table 'sentences', in the order of the file, and counts.
    """
    key = "similarity.sentences"
    path = locate(source, key)
    if not path.is_file():
        raise DataError(f"{key}: '{source}' is a folder, expected a text file with one sentence per line")
    try:
        text = text_files.read_text(path, key)
    except OSError as error:
        raise DataError(f"{key}: '{source}' cannot be read ({error})") from None
    lines = [" ".join(line.split()) for line in text_files.lines(text, f"{key}: '{source}'")]
    distinct = list(dict.fromkeys(filter(None, lines)))
    if len(distinct) < FEWEST:
        raise DataError(
            f"{key}: '{source}' has {len(distinct)} distinct sentences, expected at least {FEWEST}"
        )
    order = np.random.default_rng(derive(seed, "probe")).permutation(len(distinct))[:sentences]
    drawn = [distinct[i] for i in sorted(order)]
    empty = lines.count("")
    counts = {"lines": len(lines), "empty": empty, "duplicate": len(lines) - empty - len(distinct)}
    frame = pd.DataFrame({"example": range(len(drawn)), "text": drawn, "task": None})
    return frame, counts | {"examples": len(drawn)}


def from_tasks(
    validation: dict[str, pd.DataFrame], sentences: int, seed: int
) -> tuple[pd.DataFrame, dict[str, int]]:
    """Draw at most `sentences` validation texts, the same number per task if possible.

    Each text of a pair is a sentence. Return the table 'sentences', task by task, and counts. Raises
    DataError for fewer than `FEWEST`.
    """
    pools: dict[str, list[str]] = {}
    for task, frame in validation.items():
        texts = pd.concat([frame["text_a"], frame["text_b"].dropna()]).drop_duplicates()
        texts = texts[texts.str.strip() != ""]
        order = np.random.default_rng(derive(seed, "probe", task)).permutation(len(texts))
        pools[task] = texts.iloc[order].tolist()
    sources: dict[str, str] = {}  # sentence: task
    quota = sentences // len(pools)
    for task, pool in pools.items():
        sources |= dict.fromkeys([text for text in pool if text not in sources][:quota], task)
    if len(sources) < FEWEST:
        raise DataError(
            f"similarity.sentences: the validation texts have {len(sources)} sentences, "
            f"expected at least {FEWEST}"
        )
    frame = pd.DataFrame({"text": list(sources), "task": list(sources.values())})
    frame.insert(0, "example", range(len(frame)))
    counts = {task: int((frame["task"] == task).sum()) for task in pools}
    return frame, counts | {"examples": len(frame)}
