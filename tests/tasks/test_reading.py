"""Sentences and units from the cells of tables."""

import numpy as np
import pandas as pd
import pytest

from headspec.config.sections.task import Task
from headspec.data import splits
from headspec.errors import DataError
from headspec.tasks import data
from headspec.tasks.kinds import KINDS
from headspec.tasks.tags.data import DATA
from headspec.tasks.words.base import parsed

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
    rows = splits.read_labelled("pos", table(tmp_path, ending))["train"]
    assert rows["text_a"].tolist() == ["It rains", "Go"] and rows["text_b"].isna().all()
    assert [parsed(label) for label in rows["label"]] == [[(0, "PRON"), (1, "VERB")], [(0, "VERB")]]


@pytest.mark.parametrize(
    ("words", "tags", "problem"),
    [
        ([], [], "it has no words"),
        (["a", ""], ["X", "Y"], "word 2 is '', expected text"),
        (["a", "b"], ["X"], "it has 2 words and 1 tags"),
        *((["a", "b"], ["X", missing], "word 2 has no tag") for missing in ("_", "", None, np.nan)),
        (["a"], np.nan, "it has nan, expected a list"),
    ],
)
def test_a_sentence_without_its_annotation_is_named(words, tags, problem):
    frame = pd.DataFrame({"words": [["ok"], words], "upos": [["X"], tags]})
    with pytest.raises(DataError) as error:
        data.reader(TASK.type).rows(frame, TASK, "tasks.pos", "train.parquet")
    assert str(error.value) == (
        f"tasks.pos.label: 1 of 2 sentences of train.parquet have no tags in upos: row 2: {problem}"
    )


def test_other_labels_than_those_of_training_are_refused_if_they_are_many():
    one, rare = '[[0,"X"]]', '[[0,"Y"]]'
    few, many = pd.Series([one] * 19 + [rare]), pd.Series([one] * 19 + [rare] * 2)
    DATA.check_labels(few, {"labels": ["X"]}, "tasks.pos.label", "validation.parquet")
    expected = r"2 of 21 units of validation\.parquet have labels .* such as Y, first in row 20; .* are X$"
    with pytest.raises(DataError, match=expected):
        DATA.check_labels(many, {"labels": ["X"]}, "tasks.pos.label", "validation.parquet")


CONLLU = "# sent_id = 1\n1\tGo\t_\tVERB\t_\t_\t0\troot\t_\t_\n\n{}\n\n"
LINE = "{0}\t{1}\t_\tX\t_\t_\t{2}\tdep\t_\t_"
BAD = {
    "cycle": ("dependencies", [(1, "a", 2), (2, "b", 1), (3, "c", 0)], "words 1 -> 2 -> 1 form a cycle"),
    "two roots": ("dependencies", [(1, "a", 0), (2, "b", 0)], "it has 2 roots, words 1, 2"),
    "dependencies as constituents": ("constituents", [(1, "a", 0)], "expected a tree in brackets"),
    "only what is left out": ("tags", [("1-2", "ab", "_")], "it has no words"),
}  # fmt: skip


@pytest.mark.parametrize("case", BAD)
def test_bad_sentences_are_refused_with_key_file_and_line(tmp_path, case):
    kind, words, problem = BAD[case]
    lines = "\n".join(LINE.format(*word) for word in words)
    (tmp_path / "train.conllu").write_text(CONLLU.format(lines))
    label = {"constituents": "head"}.get(kind, KINDS[kind].defaults["label"])
    task = Task(source=str(tmp_path), type=kind, label=label if isinstance(label, str) else list(label))
    with pytest.raises(DataError) as error:
        splits.read_labelled("bank", task)
    text = str(error.value)
    wrong = 2 if kind == "constituents" else 1
    assert text.startswith(f"tasks.bank.label: {wrong} of 2 sentences of train.conllu have no {kind} in ")
    assert "the sentence at line 4: " in text and problem in text
