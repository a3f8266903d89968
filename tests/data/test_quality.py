"""Warnings about rows that are of little use."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.data import planned
from support.data.labelled_texts import labelled, save


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    return tmp_path


def warned(frame: pd.DataFrame, max_length: int = 8, **settings) -> list[str]:
    """Warnings while planning, equal if the source is read and if its record is."""
    save(frame, (folder := Path.cwd() / "x") / "train.csv")
    task = Task(source="x", **settings)
    study = Study(
        study="s", seeds=[0], models={"m": {"source": "m", "max_length": max_length}}, tasks={"t": task},
        mixtures={"single": ["t"]},
    )  # fmt: skip
    first, again = (planned.prepare_tasks(study).warnings(study) for _ in range(2))
    assert first == again and (folder.parent / ".snakemake/headspec/s/t.parquet").exists()
    return first


def replaced(column: str, at: slice, values: list[str]) -> pd.DataFrame:
    frame = labelled(100)
    frame.loc[at, column] = values
    return frame


def test_ordinary_rows_earn_none(here):
    assert warned(labelled(100)) == []


@pytest.mark.parametrize(
    ("n", "expected"), [(9, []), (10, ["10 % of 100 training rows have an empty text; first at row 91"])]
)
def test_empty_rows(here, n, expected):
    assert warned(replaced("text", slice(90, 89 + n), [" "] * n)) == [f"tasks.t: {line}" for line in expected]


def test_half_of_a_table_contradicts_the_other(here):
    frame = labelled(50)
    other = frame.assign(label=frame["label"].map({"x": "y", "y": "z", "z": "x"}), text=frame["text"] + " ")
    (line,) = warned(pd.concat([frame, other]))
    what, at = line.split("; ")
    assert what == "tasks.t: 100 % of 100 training rows contradict another row with the same text"
    assert at == "first at rows 1 and 51"


def test_repeated_rows_do_not_contradict(here):
    frame = labelled(80)
    assert warned(pd.concat([frame, frame.iloc[10:30]])) == [
        "tasks.t: 20 % of 100 training rows repeat the text and label of another row; first at rows 11 and 81"
    ]


def test_rows_are_numbered_as_they_are_stored(here):
    """Also where a filter leaves some out."""
    frame = labelled(50).assign(part="a")
    frame = pd.concat([frame.head(7).assign(part="b"), frame, frame.head(20)])
    assert warned(frame, filter={"part": "a"}) == [
        "tasks.t: 29 % of 70 training rows repeat the text and label of another row; first at rows 8 and 58"
    ]


def test_validation_rows_are_counted_by_themselves(here):
    save(pd.concat([labelled(20, 100)] * 2), here / "x" / "validation.csv")
    assert warned(labelled(100)) == [
        "tasks.t: 50 % of 40 validation rows repeat the text and label of another row; first at rows 1 and 21"
    ]


@pytest.mark.parametrize(("long", "expected"), [(40, []), (60, ["60 %"])])
def test_rows_longer_than_a_model_takes(here, long, expected):
    frame = labelled(100)
    frame.loc[: long - 1, "text"] += " and seven more words at its end"
    found = warned(frame, max_length=8)
    assert [line.split(" more words in ")[1][:4] for line in found] == expected
    assert all(line.startswith("models.m.max_length: 8 tokens, but") for line in found)


@pytest.mark.parametrize("n", [0, 2])
def test_sides_of_unlike_length(here, n):
    """Relative to what is usual: all targets are three times as long as their sources."""
    frame = labelled(100).assign(text=[f"{'a word ' * (2 + i % 7)}{i}" for i in range(100)])
    frame["label"] = frame["text"] * 3
    frame.loc[40 : 39 + n, "label"] = frame["text"] * 30
    expected = (
        "of 100 training rows have a source or a target 9 times as long, relative to the other, as most"
    )
    lines = warned(frame, 40, type="translation")
    assert lines == [f"tasks.t: 2 % {expected} rows; first at row 41"] * (n > 0)


def test_rows_without_a_target_are_empty(here):
    frame = labelled(100).assign(label=lambda rows: rows["text"])
    frame.loc[:9, "label"] = " "
    lines = warned(frame, 40, type="translation")
    assert lines == ["tasks.t: 10 % of 100 training rows have an empty text; first at row 1"]


@pytest.mark.parametrize(
    ("target", "tokenizer"),
    [
        ("这是第{}句话。", "zh"),
        ("これは第{}の文です。", "ja-mecab"),
        ("นี่คือประโยคที่ {}", "char"),
        ("Satz {}", ""),
    ],
)
def test_how_bleu_counts_words_without_spaces(here, target, tokenizer):
    frame = labelled(60)
    frame["label"] = [target.format(i) for i in range(60)]
    lines = warned(frame, 40, type="translation")
    told = f"tasks.t.metrics: bleu counts what sacrebleu's tokenizer {tokenizer} finds"
    assert [line.startswith(told) for line in lines] == ([True] if tokenizer else [])
    assert warned(frame, 40, type="translation", metrics=["chrf"]) == []
