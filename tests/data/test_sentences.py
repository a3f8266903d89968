"""Sentences to compare models on, from the tasks or from the user's file."""

import pandas as pd
import pytest

from headspec.data.sources.sentences import from_file, from_tasks
from headspec.errors import DataError


def single(task: str, n: int) -> pd.DataFrame:
    return pd.DataFrame({"text_a": [f"{task} {i}" for i in range(n)], "text_b": None})


def test_every_task_gives_the_same_number_of_sentences():
    pairs = pd.DataFrame(
        {"text_a": [f"left {i}" for i in range(30)], "text_b": [f"right {i}" for i in range(30)]}
    )
    frame, counts = from_tasks({"a": single("a", 50), "b": single("b", 50), "p": pairs}, 60, 0)
    assert counts == {"a": 20, "b": 20, "p": 20, "examples": 60}
    assert frame["text"].is_unique and frame["example"].tolist() == list(range(60))
    texts = frame[frame["task"] == "p"]["text"].str
    assert texts.startswith("left").any() and texts.startswith("right").any()


def test_empty_texts_are_skipped():
    frame, counts = from_tasks({"a": pd.concat([single("a", 12), single("", 1).assign(text_a=" ")])}, 30, 0)
    assert counts["a"] == 12 and frame["text"].str.strip().ne("").all()


def test_a_sentence_of_several_tasks_is_used_once():
    shared = single("a", 20)
    frame, counts = from_tasks({"a": shared, "b": shared}, 30, 0)
    assert frame["text"].is_unique and counts == {"a": 15, "b": 5, "examples": 20}


def test_the_draw_depends_on_the_seed_and_the_task_alone():
    few, many = {"a": single("a", 50), "b": single("b", 50)}, {"b": single("b", 50), "c": single("c", 50)}
    b, again = (from_tasks(t, 40, 0)[0].query("task == 'b'")["text"].tolist() for t in (few, many))
    assert b == again
    assert b != from_tasks(few, 40, 1)[0].query("task == 'b'")["text"].tolist()


def test_empty_and_repeated_lines_of_a_file_are_left_out_and_counted(tmp_path):
    path = tmp_path / "sentences.txt"
    lines = [f"Sentence {i}." for i in range(12)]
    path.write_text("\n".join([*lines[:6], "", "   ", "Sentence  3.", *lines[6:], ""]))
    frame, counts = from_file(str(path), 600, 0)
    assert frame["text"].tolist() == lines and frame["task"].isna().all()
    assert counts == {"lines": 15, "empty": 2, "duplicate": 1, "examples": 12}
    frame, counts = from_file(str(path), 11, 0)
    assert len(frame) == 11 and frame["text"].tolist() == sorted(frame["text"], key=lines.index)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("\n\n\n", "has 0 distinct sentences, expected at least 10"),
        ("one\ntwo\none\n", "has 2 distinct sentences"),
        (b"\xff\xfe\x00bad", "is not UTF-8 text"),
    ],
)
def test_an_invalid_file(tmp_path, text, problem):
    path = tmp_path / "sentences.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=problem):
        from_file(str(path), 600, 0)


def test_a_missing_file_or_a_folder(tmp_path):
    (tmp_path / "sentence.txt").touch()
    with pytest.raises(
        DataError,
        match="similarity.sentences: no file or folder 'sentences.txt'.*Did you mean 'sentence.txt'",
    ):
        from_file(str(tmp_path / "sentences.txt"), 600, 0)
    with pytest.raises(DataError, match="is a folder, expected a text file"):
        from_file(str(tmp_path), 600, 0)
