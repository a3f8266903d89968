"""Valid tables, changed as users' tables are: they are read correctly, or planning says what is wrong."""

import json
import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from headspec.config.sections.task import Task
from headspec.data import prepare, reading_report, splits
from headspec.errors import DataError
from support.data.mutations import MUTATIONS, UNTOLD
from support.data.sources import written

Rows = list[tuple[str, Any]]


def planned(source: Path, keys: dict[str, Any]) -> tuple[Rows | None, list[str]]:
    """Texts and labels that are read, None if they are refused, and what planning says."""
    task = Task(source=str(source), **keys)
    try:
        read = prepare.read_source("t", task, 0)
    except DataError as error:
        return None, [str(error)]
    said = reading_report.odd("t", task, read)
    frames = splits.read_labelled("t", task).values()
    pairs = [pair for frame in frames for pair in zip(frame["text_a"], frame["label"], strict=True)]
    return [(text, _value(label, task.type)) for text, label in pairs], said


def _value(label: str, kind: str) -> Any:
    value = label if kind in ("classification", "regression") else json.loads(label)
    return [tag for _, tag in value] if kind == "tags" else value


def comparable(rows: Rows | None) -> list[str]:
    """Rows in any order; how much white space there is, and of which kind, does not count."""
    return sorted(json.dumps([" ".join(text.split()), label]) for text, label in rows or ())


@pytest.mark.parametrize("name", MUTATIONS)
@settings(max_examples=settings().max_examples // 20)
@given(seed=st.integers(0, 2**32 - 1))
def test_a_changed_table_is_read_right_or_planning_says_what_it_is(name, seed):
    words, make = MUTATIONS[name]
    changed = make(Random(seed))
    with tempfile.TemporaryDirectory() as folder:
        read, said = planned(written(folder, changed.files) / changed.source, changed.table.keys)
    if comparable(read) == comparable(changed.table.rows):
        assert words != UNTOLD or not said
    else:
        pattern = f"{words}|{changed.named}"
        assert any(re.search(pattern, line, re.IGNORECASE) for line in said), (said, read, changed.table.rows)
