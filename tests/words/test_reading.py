"""Sentences and units from the cells of tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from headspec.config.sections.task import Task
from headspec.data import splits
from headspec.errors import DataError
from headspec.words import reading
from headspec.words.base import parsed

TASK = Task(source="bank", type="tags")
ROWS = {"words": [["It", "rains"], ["Go"]], "upos": [["PRON", "VERB"], ["VERB"]]}


def table(tmp_path, ending, rows=ROWS):
    frame = pd.DataFrame(rows)
    path = tmp_path / "bank"
    path.mkdir(exist_ok=True)
    if ending == ".parquet":
        frame.to_parquet(path / "train.parquet")
    elif ending == ".jsonl":
        frame.to_json(path / "train.jsonl", orient="records", lines=True)
    else:
        joined = frame.map(" ".join)
        joined.to_csv(path / f"train{ending}", sep="," if ending == ".csv" else "\t", index=False)
    return TASK.model_copy(update={"source": str(path)})


@pytest.mark.parametrize("ending", [".parquet", ".jsonl", ".csv", ".tsv"])
def test_every_format_gives_the_same_sentences(tmp_path, ending):
    rows = splits.rows("pos", table(tmp_path, ending))["train"]
    assert rows["text_a"].tolist() == ["It rains", "Go"] and rows["text_b"].isna().all()
    assert [parsed(label) for label in rows["label"]] == [[(0, "PRON"), (1, "VERB")], [(0, "VERB")]]


def test_a_space_in_a_word_does_not_end_it():
    frame = pd.DataFrame({"words": [["10 000", "men"]], "upos": [["NUM", "NOUN"]]})
    (text,) = reading.rows(frame, TASK, "tasks.pos", "train.parquet")["text_a"]
    assert text.split(" ") == ["10\u00a0000", "men"]


@pytest.mark.parametrize(
    ("words", "tags", "problem"),
    [
        ([], [], "it has no words"),
        (["a", ""], ["X", "Y"], "word 2 is '', expected text"),
        (["a", "b"], ["X"], "it has 2 words and 1 tags"),
        (["a", "b"], ["X", "_"], "word 2 has no tag"),
        (["a", "b"], ["X", None], "word 2 has no tag"),
        (["a"], np.nan, "it has nan, expected a list"),
    ],
)
def test_a_sentence_without_its_annotation_is_named(words, tags, problem):
    frame = pd.DataFrame({"words": [["ok"], words], "upos": [["X"], tags]})
    with pytest.raises(DataError) as error:
        reading.rows(frame, TASK, "tasks.pos", "train.parquet")
    assert str(error.value) == (
        f"tasks.pos.label: 1 of 2 sentences of train.parquet have no tags in upos: row 2: {problem}"
    )


def test_other_labels_than_those_of_training_are_refused_if_they_are_many():
    one, rare = '[[0,"X"]]', '[[0,"Y"]]'
    reading.check_labels([one] * 19 + [rare], ["X"], "tasks.pos.label", "validation.parquet")
    with pytest.raises(DataError, match=r"2 of 21 units of validation\.parquet have labels .* such as Y"):
        reading.check_labels([one] * 19 + [rare] * 2, ["X"], "tasks.pos.label", "validation.parquet")
