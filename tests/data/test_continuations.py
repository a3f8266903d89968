"""Pairs of continuations as data: two texts, or two answers of an example."""

from pathlib import Path
from typing import Any

import pandas as pd

from headspec.config.loading import load
from headspec.config.sections.task import Task
from headspec.data import prepare, tasks_read
from headspec.tasks.kinds.continuations.data import answers
from support.data.sources import config, save

#: one table of two of BLiMP's paradigms
BLIMP = pd.DataFrame(
    [
        {"UID": uid, "sentence_good": f"The {n} dogs {verb}.", "sentence_bad": f"The {n} dogs {verb}s."}
        for uid, verb in {"agreement_1": "bark", "agreement_2": "run"}.items()
        for n in range(40)
    ]
)


def prepared(folder: Path, frame: pd.DataFrame, **settings: Any) -> prepare.Prepared:
    return prepare.prepare("t", Task(source=str(save(frame, folder / "t.jsonl")), **settings), seed=0)


def test_minimal_pairs_are_two_texts_without_a_label(tmp_path):
    settings = {"filter": {"UID": "agreement_2"}, "validation_examples": 10}
    found = prepared(tmp_path, BLIMP, type="minimal_pairs", **settings)
    assert len(found.validation) == 10 and len(found.train) == 30 and found.classes == []
    rows = pd.concat([found.train, found.validation])
    assert {*rows["text_a"]} == {f"The {n} dogs run." for n in range(40)} and {*rows["label"]} == {""}
    assert (rows["text_b"] == rows["text_a"].str.replace("run.", "runs.")).all()


def test_paradigms_of_one_table_share_no_texts(here):
    save(BLIMP, here / "t.jsonl")
    task = {"source": "t.jsonl", "type": "minimal_pairs"}
    tasks = {uid: task | {"filter": {"UID": uid}} for uid in ("agreement_1", "agreement_2")}
    study = load(config(tasks, mixtures={"pairs": [*tasks]}, methods=["prompted"]))
    plan = tasks_read.prepare_tasks(study, Path("records"))
    again = tasks_read.prepare_tasks(study, Path("records"))  # from the record
    for name in tasks:
        assert len(plan.prepared[name].train) == 36 and not plan.prepared[name].leaks
        assert again.prepared[name].classes == [] and len(again.prepared[name].validation) == 4


def test_answers_keep_their_spaces_and_numbers_are_text(tmp_path):
    years = [{"text": f"From 17{n} to 17", "right": n + 1, "wrong": n - 1} for n in range(20, 60)]
    found = prepared(tmp_path, pd.DataFrame(years), type="answer_pairs")
    for text, label in zip(found.train["text_a"], found.train["label"], strict=True):
        n = int(text[7:9])
        assert answers(label) == [str(n + 1), str(n - 1)]
    spaced = pd.DataFrame(years).assign(good=" Mary", bad=" John")
    found = prepared(tmp_path, spaced, type="answer_pairs", label=["good", "bad"])
    assert {tuple(answers(label)) for label in found.train["label"]} == {(" Mary", " John")}
