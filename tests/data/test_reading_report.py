"""The report on reading a task: rows, those left out, classes, and oddities."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headspec.config.study import Study
from headspec.data import joined_labels, lookalikes, tasks_read
from headspec.errors import DataError
from support.data.labelled_texts import labelled
from support.data.sources import config, save


def read(frame: pd.DataFrame, **settings: Any) -> tuple[list[str], list[str]]:
    """The account of a table while planning: rows and classes, and what is odd."""
    save(frame, path := Path("t.jsonl"))
    tasks = {"t": {"source": str(path)} | settings}
    methods = {"methods": ["prompted"]} if settings.get("type", "").endswith("pairs") else {}
    study = Study(**config(tasks, models={"m": {"source": "m", "max_length": 99}}, **methods))
    plan = tasks_read.prepare_tasks(study)
    again = tasks_read.prepare_tasks(study)  # from the record
    said = plan.report_lines(study), plan.warnings(study)
    assert (again.report_lines(study), again.warnings(study)) == said
    return said


def test_rows_and_classes_are_counted_in_each_split(here):
    frame = labelled(100)
    frame.loc[90:, "text"] = frame.loc[:9, "text"].tolist()
    frame.loc[80, "text"] = ""
    facts, _ = read(frame, validation_examples=9, train_examples=60)
    assert facts == [
        "tasks.t: 60 of 100 training rows in t.jsonl (1 have an empty text, 10 repeat the text of another "
        "row, 9 are held out for validation, 20 are more than the task uses); x 51, y 33, z 16",
        "tasks.t: 9 validation rows, held out of those for training",
    ]


LABELS = {
    "train": "is treated as a class, but has the name of a split",
    "Dev": "is treated as a class, but has the name of a split",
    "pos\u200b": "characters that are not printed",
    "{'pos'": "look like values of a program, or parts of them",
    "(1, 2)": "look like values of a program, or parts of them",
    "neg & pos": "1 of 4 classes combine other classes, such as 'neg & pos'",
    "p\u043es": "'pos' and 'p\\u043es' are separate classes",
    "POS!": "'POS!' and 'pos' are separate classes",
}


@pytest.mark.parametrize("name", LABELS)
def test_odd_classes_are_told(here, name):
    names = ["neg", "none of them", "pos", name]
    _, lines = read(labelled(100, label=names * 25))
    assert [line for line in lines if line.startswith("tasks.t.label: ") and LABELS[name] in line]
    assert read(labelled(99, label=names[:3] * 33))[1] == []


def test_a_class_with_most_rows_is_told(here):
    frame = labelled(100, label=["unsup"] * 60 + ["neg", "pos"] * 20)
    said = "tasks.t.label: 60 of 100 training rows have the label 'unsup'; if it marks a missing label, name"
    assert [line[: len(said)] for line in read(frame)[1]] == [said]
    assert read(labelled(100, label=["neg"] * 70 + ["pos"] * 30))[1] == []


def test_texts_of_another_format_and_unprinted_characters_are_told(here):
    frame = labelled(100)
    frame["text"] = [repr([text]) for text in frame["text"]]
    (line,) = read(frame)[1]
    assert line.startswith("tasks.t.text_a: 100 of 100 training rows look like values of a program")
    frame = labelled(100)
    frame.loc[4, "text"] += "\x96"
    (line,) = read(frame)[1]
    assert line == (
        "tasks.t.text_a: 1 of 100 training rows have characters that are not printed, such as '\\x96' in "
        "row 5"
    )


def test_pairs_that_are_no_two_texts_are_left_out_and_counted(here):
    frame = pd.DataFrame({"sentence_good": [f"text {i}" for i in range(60)]})
    frame["sentence_bad"] = frame["sentence_good"] + " no"
    frame.loc[[3, 5], "sentence_bad"] = frame["sentence_good"]
    frame.loc[7, "sentence_bad"] = " "
    facts, lines = read(frame, type="minimal_pairs")
    assert lines == ["tasks.t: 3 of 60 training rows have no two different texts and are left out"]
    assert facts[0].startswith(
        "tasks.t: 52 of 60 training rows in t.jsonl (3 have no two different texts, 5 are"
    )
    frame.loc[::2, "sentence_bad"] = frame["sentence_good"]
    with pytest.raises(DataError, match=r"row 1 of t.jsonl has the same text .* up to 10 % are left out"):
        read(frame, type="minimal_pairs")


def test_pairs_of_answers_contradict_each_other_only_in_the_right_one(here):
    """Rows with one prompt and other wrong answers are repetitions, which are told."""
    frame = pd.DataFrame({"text": [f"prompt {i // 2}" for i in range(100)], "right": "yes"})
    frame["wrong"] = [f"no {i}" for i in range(100)]
    facts, (line,) = read(frame, type="answer_pairs", prompt="{text_a}")
    assert line == (
        "tasks.t: 50 % of 100 training rows repeat the text of another row with another label; first at rows "
        "1 and 2"
    )
    assert "50 repeat the text of another row" in facts[0]
    frame["right"] = [f"yes {i}" for i in range(100)]
    assert "contradict another row" in read(frame, type="answer_pairs", prompt="{text_a}")[1][0]


# --- numbers


def scores(*more: float) -> dict[str, list[float]]:
    return {"label": [*np.linspace(0, 5, 20), *more]}


@pytest.mark.parametrize("score", [1e39, -1e39, 1e20, -3e18, 1e-39, -1e-45])
def test_scores_that_float32_cannot_hold_are_refused(here, score):
    frame = pd.DataFrame(scores(score)).assign(text=[f"text {i}" for i in range(21)])
    with pytest.raises(
        DataError, match=rf"row 21 of t.jsonl has '{re.escape(str(score))}', but .* float32 can"
    ):
        read(frame, type="regression")


def test_scores_between_which_float32_has_no_steps_are_refused(here):
    frame = pd.DataFrame(scores()).assign(text=[f"text {i}" for i in range(20)])
    for offset in (0, 1e3, -1e5):
        read(frame.assign(label=frame["label"] + offset), type="regression")
    for offset in (1e8, -1.7e9, 1e15):
        with pytest.raises(DataError, match=r"where float32 has steps of .*; subtract a constant from all"):
            read(frame.assign(label=frame["label"] + offset), type="regression")


# --- names


def test_names_that_differ_are_not_alike():
    for names in (
        ["<=50K", ">50K"],
        ["-1", "0", "1", "1.5", "15", "10-20", "1020"],
        ["😀", "😁", ":)", ":("],
        [",", ".", ":", "``", "''", "PRP", "PRP$", "-LRB-"],
        ["résumé", "resume"],
        ["C", "C++"],
        ["café", "-1", "1"],
    ):
        assert lookalikes.alike(names) == []


@pytest.mark.parametrize(
    "name",
    ["“AB”", "A\u00adB", "a-b", "АВ", "ΑΒ", "ＡＢ", "ab\u200b", "A\ufe0fB", "𝐀𝐁", "Ꭺb", "ab.", "A\u00a0B"],
)
def test_names_that_look_like_another_are_alike(name):
    assert lookalikes.alike(["x", name, "y", "AB"]) == [[name, "AB"]]


def test_names_of_other_names_are_found_by_their_joint():
    names = ["joy", "fear", "very sad"]
    for joint in ["#", " & ", "\\", "::", "_", " and ", "||", "، ", "·", " → ", "<br>", "\n"]:
        joined = [f"joy{joint}fear", f"very sad{joint}joy", f"fear{joint}very sad{joint}joy"]
        found = joined_labels.composed([*names, *joined])
        assert {name: one.joint for name, one in found.items()} == dict.fromkeys(joined, joint)
        assert [found[name].parts for name in joined] == [name.split(joint) for name in joined]
    assert joined_labels.composed(["1.5", "1", "5", "x-ray", "x", "sad", "very sad", "fear"]) == {}


def test_names_whose_parts_recur_may_be_joined():
    found = joined_labels.recurring(["joy#fear", "fear#sad", "sad#joy", "joy#fear#sad"])
    assert found is not None and found.joint == "#"
    for names in (
        ["top", "card_arrival", "card_linking", "get_pin"],
        ["severe_toxic", "toxic", "identity_hate"],
    ):
        assert joined_labels.recurring(names) is None
