"""Sentences on which models are compared, from the tasks or from the user's file."""

import pandas as pd
import pytest

from headspec.data.sources.sentences import from_file, from_tasks
from headspec.errors import DataError


def table(name: str, n: int, second: str | None = None) -> pd.DataFrame:
    numbers = range(n)
    pairs = None if second is None else [f"{second} {i}" for i in numbers]
    return pd.DataFrame({"text_a": [f"{name} {i}" for i in numbers], "text_b": pairs})


def test_every_task_gives_the_same_number_of_sentences():
    a = pd.concat([table("a", 50), pd.DataFrame({"text_a": [" "] * 50, "text_b": None})])
    frame, counts = from_tasks({"a": a, "b": table("b", 50), "p": table("left", 30, "right")}, 60, 0)
    assert counts == {"a": 20, "b": 20, "p": 20, "examples": 60}
    assert frame["text"].is_unique and frame["example"].tolist() == list(range(60))
    assert frame["text"].str.strip().ne("").all()  # empty texts are left out
    assert {text.split()[0] for text in frame["text"][frame["task"] == "p"]} == {"left", "right"}


def test_a_sentence_of_several_tasks_is_used_once():
    frame, counts = from_tasks({"a": table("a", 20), "b": table("a", 20)}, 30, 0)
    assert frame["text"].is_unique and counts == {"a": 15, "b": 5, "examples": 20}


def test_the_draw_depends_on_the_seed_and_the_task_alone():
    def b(seed: int, **others: pd.DataFrame) -> list[str]:
        frame, _ = from_tasks(others | {"b": table("b", 50)}, 40, seed)
        return frame["text"][frame["task"] == "b"].tolist()

    assert b(0, a=table("a", 50)) == b(0, c=table("c", 50)) != b(1, a=table("a", 50))


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
    ("source", "content", "problem"),
    [
        ("x.txt", b"\n\n\n", "has 0 distinct sentences, expected at least 10"),
        ("x.txt", b"one\ntwo\none\n", "has 2 distinct sentences"),
        ("x.txt", b"\xff\xfe\x00bad", "line 1 of x.txt has the byte 0xFF, which is no UTF-8 text"),
        ("y.txt", b"", "^similarity.sentences: no file or folder 'y.txt'.*Did you mean 'x.txt'"),
        (".", b"", "is a folder, expected a text file"),
    ],
)
def test_an_invalid_file_is_refused(tmp_path, source, content, problem):
    (tmp_path / "x.txt").write_bytes(content)
    with pytest.raises(DataError, match=problem):
        from_file(str(tmp_path / source), 600, 0)
    with pytest.raises(DataError, match="the validation texts have 3 sentences, expected at least 10"):
        from_tasks({"a": table("a", 3)}, 600, 0)
