"""Warnings about rows of little use, and about metrics and classes that may not be intended."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.data import prepare, tasks_read
from support.data.labelled_texts import labelled
from support.data.sources import config, save


def warned(frame: pd.DataFrame, max_length: int = 8, **settings: Any) -> list[str]:
    """Warnings while planning, equal if the source is read and if its record is."""
    save(frame, Path("x", "train.csv"))
    models = {"m": {"source": "m", "max_length": max_length}}
    study = Study(**config({"t": {"source": "x"} | settings}, models=models))
    first, again = (tasks_read.prepare_tasks(study).warnings(study) for _ in range(2))
    assert first == again and Path(".snakemake/headspec/s/t.parquet").exists()
    return first


def empty(column: str, first: int, last: int) -> pd.DataFrame:
    frame = labelled(100)
    frame.loc[first:last, column] = " "
    return frame


CONTRADICTING = labelled(50).assign(
    label=lambda rows: rows["label"].map({"x": "y", "y": "z", "z": "x"}), text=lambda rows: rows["text"] + " "
)
FILTERED = [labelled(7).assign(part="b"), labelled(50).assign(part="a"), labelled(20).assign(part="a")]
TARGETS = [*[" "] * 10, *(f"Satz {i}." for i in range(90))]
NUMBERS = [f"row {i}" for i in range(1000)]
ROWS = {
    "ordinary": (labelled(100), {}, None),
    "few empty": (empty("text", 90, 98), {}, None),
    "empty": (empty("text", 90, 99), {}, "10 % of 100 training rows have an empty text; first at row 91"),
    "without a target": (labelled(100, label=TARGETS), {"type": "translation"},
        "10 % of 100 training rows have an empty text; first at row 1"),
    "contradicting": (pd.concat([labelled(50), CONTRADICTING]), {},
        "100 % of 100 training rows contradict another row with the same text; first at rows 1 and 51"),
    "repeated": (pd.concat([labelled(80), labelled(80).iloc[10:30]]), {},
        "20 % of 100 training rows repeat the text and label of another row; first at rows 11 and 81"),
    "numbered as stored": (pd.concat(FILTERED), {"filter": {"part": "a"}},
        "29 % of 70 training rows repeat the text and label of another row; first at rows 8 and 58"),
    "many numbers": (pd.DataFrame({"text": NUMBERS, "label": [*range(200)] * 5}), {},
        ".label: 200 different numbers are taken as classes, from 0 to 199; for scores, set tasks.t.type to "
        "regression"),
    "halves": (labelled(100, label=[0, 0.5] * 50), {},
        ".label: 2 different numbers are taken as classes, from 0 to 0.5; for scores, set tasks.t.type to "
        "regression"),
    "several": (labelled(100, label=["joy", "very sad", "joy; very sad", "joy|joi", "good night"] * 20), {},
        ".label: 1 of 5 classes combine other classes, such as 'joy; very sad'; for several labels of a "
        "text, set tasks.t.type to labels"),
    "intents": (labelled(770, label=[*range(77)] * 10), {}, None),
}  # fmt: skip


@pytest.mark.parametrize("case", ROWS)
def test_rows_of_little_use_and_doubtful_classes_are_named(here, case):
    frame, settings, expected = ROWS[case]
    separator = "" if expected and expected.startswith(".") else ": "
    assert warned(frame, **settings) == ([f"tasks.t{separator}{expected}"] if expected else [])


OWN = "are separate classes; if they mean the same, merge them by tasks.t.labels"
NAMED: list[tuple[list[str], dict[str, Any], str]] = [
    ([*"xy", "NaN", "None"], {}, "label: NaN, None is treated as a class; if it marks a missing label, "
        "name it in tasks.t.unlabelled"),
    ([*"xy", "none", "NONE"], {}, f"label: 'NONE' and 'none' {OWN}"),
    (["Positive", "positive", "\u00e9", "e\u0301"], {},
        f"label: 'Positive' and 'positive', 'e\\u0301' and '\\xe9' {OWN}"),
    (["joy", "Joy ", "fear", "joy,fear"], {"type": "labels"}, f"label: 'Joy' and 'joy' {OWN}"),
    (["x", "y", "NA", "X"], {"labels": [*"xyzX", "NA"]}, "labels: no training row has z"),
    (["x", "y", "x,y", "x"], {"type": "labels", "labels": [*"xyz"]}, "labels: no training row has z"),
    (["x y", "y x", "z z", "NA x"], {"type": "tags", "text_a": "tokens"}, "label: NA is treated as a class"),
]  # fmt: skip


@pytest.mark.parametrize(("labels", "settings", "said"), NAMED)
def test_names_that_may_be_no_classes_of_their_own_are_told(here, labels, settings, said):
    frame = labelled(100, label=labels * 25).assign(tokens=[f"word{i} word" for i in range(100)])
    (line,) = warned(frame, 40, **{"label": "label"} | settings)
    assert line.startswith(f"tasks.t.{said}")


def test_a_word_in_each_row_is_told(here):
    frame = pd.DataFrame({"words": [f"w{i}" for i in range(100)], "upos": [*"XY"] * 50})
    said = (
        "100 % of 100 training rows are sentences of one word; a file with a word in each line ends in .conll"
    )
    assert warned(frame, type="tags") == [f"tasks.t: {said}; first at row 1"]


@pytest.mark.parametrize(("values", "n"), [("", 20), (["", "?"], 40), ([-1, "?", ""], 60)])
@pytest.mark.parametrize("kind", ["classification", "regression", "labels", "tags"])
def test_rows_without_a_label_are_left_out_and_counted(here, kind, values, n):
    found = ["1", "2", "", "?", "-1"] if n == 60 else ["1", "2", "", "?" if n == 40 else "2", "1.5"]
    if kind == "tags":
        found = [label if label in ("", "?", "-1") else f"{label} X" for label in found]
    frame = labelled(100, label=found * 20).assign(text=[f"word {i}" for i in range(100)])
    save(frame.iloc[:50], here / "x" / "dev.csv")
    settings = {"type": kind, "text_a": "text", "label": "label", "unlabelled": values}
    line, other = warned(frame, 40, **settings)[1:3]
    assert line == f"tasks.t.unlabelled: {n} of 100 training rows have no label and are left out"
    assert other == f"tasks.t.unlabelled: {n // 2} of 50 validation rows have no label and are left out"


def test_columns_of_the_label_may_be_empty_in_some_rows(here):
    flags = {"toxic": ["TRUE", "FALSE", "", "t"] * 25, "threat": ["no", "Yes", "y", "0"] * 25}
    frame = labelled(100).assign(**flags)
    (line,) = warned(frame, type="labels", label=["toxic", "threat"], unlabelled="")
    assert line == "tasks.t.unlabelled: 25 of 100 training rows have no label and are left out"
    task = Task(source="x", type="labels", label=["toxic", "threat"], unlabelled="", validation_examples=1)
    source = prepare.read_source("t", task, 0)
    labels = pd.concat([source.train.rows["label"], source.validation.rows["label"]]).sort_index()
    assert labels.tolist() == ['["toxic"]', '["threat"]', '["toxic"]'] * 25


def test_validation_rows_are_counted_by_themselves(here):
    save(pd.concat([labelled(20, 100)] * 2), here / "x" / "validation.csv")
    assert warned(labelled(100)) == [
        "tasks.t: 50 % of 40 validation rows repeat the text and label of another row; first at rows 1 and 21"
    ]


@pytest.mark.parametrize(("long", "expected"), [(40, []), (60, ["60 %"])])
def test_rows_longer_than_a_model_takes(here, long, expected):
    frame = labelled(100)
    frame.loc[: long - 1, "text"] += " and seven more words at its end"
    found = warned(frame)
    assert [line.split(" more words in ")[1][:4] for line in found] == expected
    assert all(line.startswith("models.m.max_length: 8 tokens, but") for line in found)


@pytest.mark.parametrize("n", [0, 2])
def test_sides_of_unlike_length(here, n):
    """Relative to what is usual: all targets are three times as long as their sources."""
    frame = labelled(100).assign(text=[f"{'a word ' * (2 + i % 7)}{i}" for i in range(100)])
    frame["label"] = frame["text"] * 3
    frame.loc[40 : 39 + n, "label"] = frame["text"] * 30
    said = "of 100 training rows have a source or a target 9 times as long, relative to the other, as most"
    lines = warned(frame, 40, type="translation")
    assert lines == [f"tasks.t: 2 % {said} rows; first at row 41"] * (n > 0)


def test_how_bleu_counts_words_without_spaces(here):
    for target, tokenizer in {
        "这是第{}句话。": "zh",
        "これは第{}の文です。": "ja-mecab",
        "ประโยคที่ {}": "char",
    }.items():
        frame = labelled(60, label=[target.format(i) for i in range(60)])
        (line,) = warned(frame, 40, type="translation")
        assert line.startswith(
            f"tasks.t.metrics: bleu counts the tokens of sacrebleu's tokenizer {tokenizer}"
        )
        assert warned(frame, 40, type="translation", metrics=["chrf"]) == []
    assert warned(labelled(60, label=[f"Satz {i}" for i in range(60)]), 40, type="translation") == []
