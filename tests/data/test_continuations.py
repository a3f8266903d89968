"""Pairs of continuations as data: two texts, or two answers of an example."""

from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from headspec.config.sections.task import Task
from headspec.data import planned, prepare
from headspec.data.prepare import Prepared
from headspec.errors import DataError
from headspec.tasks.continuations.data import answers

#: one table of two of BLiMP's paradigms
BLIMP = pd.DataFrame(
    [
        {"UID": uid, "sentence_good": f"The {n} dogs {verb}.", "sentence_bad": f"The {n} dogs {verb}s."}
        for uid, verb in {"agreement_1": "bark", "agreement_2": "run"}.items()
        for n in range(40)
    ]
)
YEARS = pd.DataFrame(
    [
        {"text": f"The war of {n} lasted from 17{n} to 17", "right": n + 1, "wrong": n - 1}
        for n in range(20, 60)
    ]
)


def prepared(folder: Path, frame: pd.DataFrame, **settings: Any) -> Prepared:
    frame.to_json(folder / "t.jsonl", orient="records", lines=True)
    return prepare.prepare("t", Task(source=str(folder / "t.jsonl"), **settings), seed=0)


def test_minimal_pairs_are_two_texts_without_a_label(tmp_path):
    found = prepared(
        tmp_path, BLIMP, type="minimal_pairs", filter={"UID": "agreement_2"}, validation_examples=10
    )
    assert len(found.validation) == 10 and len(found.train) == 30 and found.classes == []
    rows = pd.concat([found.train, found.validation])
    assert set(rows["text_a"]) == {f"The {n} dogs run." for n in range(40)}
    assert (rows["text_b"] == rows["text_a"].str.replace("run.", "runs.")).all() and set(rows["label"]) == {
        ""
    }


def test_paradigms_of_one_table_share_no_texts(tmp_path, monkeypatch):
    from headspec.config.loading import load

    monkeypatch.chdir(tmp_path)
    BLIMP.to_json("blimp.jsonl", orient="records", lines=True)
    task = {"source": "blimp.jsonl", "type": "minimal_pairs"}
    tasks = {uid: task | {"filter": {"UID": uid}} for uid in ("agreement_1", "agreement_2")}
    study = load(
        {"study": "s", "seeds": [0], "models": {"m": {"source": "m"}}, "tasks": tasks,
         "mixtures": {"pairs": [*tasks]}, "methods": ["prompted"]}
    )  # fmt: skip
    plan = planned.prepare_tasks(study, tmp_path / "records")
    again = planned.prepare_tasks(study, tmp_path / "records")  # from the record
    for name in tasks:
        assert len(plan.prepared[name].train) == 36 and not plan.prepared[name].leaks
        assert again.prepared[name].classes == [] and len(again.prepared[name].validation) == 4


def test_answers_keep_their_spaces_and_numbers_are_text(tmp_path):
    found = prepared(tmp_path, YEARS, type="answer_pairs")
    for text, label in zip(found.train["text_a"], found.train["label"], strict=True):
        n = int(text.split()[3])
        assert answers(label) == [str(n + 1), str(n - 1)]
    spaced = YEARS.assign(good=" Mary", bad=" John")
    found = prepared(tmp_path, spaced, type="answer_pairs", label=["good", "bad"])
    assert set(found.train["label"].map(lambda label: tuple(answers(label)))) == {(" Mary", " John")}


@pytest.mark.parametrize(
    ("frame", "type_", "problem"),
    [
        (
            BLIMP.assign(sentence_bad=[*BLIMP["sentence_bad"][:3], " ", *BLIMP["sentence_bad"][4:]]),
            "minimal_pairs",
            "tasks.t: row 4 of t.jsonl has an empty text in sentence_good, sentence_bad, expected two that "
            "differ (1 of 80 rows)",
        ),
        (
            YEARS.assign(wrong=YEARS["right"]),
            "answer_pairs",
            "tasks.t: row 1 of t.jsonl has the same text in right, wrong, expected two that differ (40 of 40",
        ),
        (
            YEARS.drop(columns="wrong"),
            "answer_pairs",
            "tasks.t.label: no column 'wrong' in t.jsonl; it has text, right.",
        ),
        (
            BLIMP.rename(columns={"sentence_bad": "sentence_worse"}),
            "minimal_pairs",
            "tasks.t.text_b: no column 'sentence_bad' in t.jsonl; it has",
        ),
    ],
)
def test_pairs_that_are_none_are_refused(tmp_path, frame, type_, problem):
    with pytest.raises(DataError) as caught:
        prepared(tmp_path, frame, type=type_)
    assert problem in str(caught.value)
