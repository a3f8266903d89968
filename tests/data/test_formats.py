"""Tables in every format: the same rows, and what their cells hold."""

import bz2
import gzip
import json
from collections.abc import Callable

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headspec.config.sections.task import Task
from headspec.data import splits
from headspec.data.sources import readers
from headspec.data.sources.formats import conll, registry
from headspec.data.sources.formats.options import Options
from headspec.errors import ConfigError
from headspec.pipeline import preflight
from support.data.sources import (
    TABLES,
    Files,
    config,
    conllu,
    content,
    csv,
    problem,
    rows,
    save,
    texts,
    written,
)

OPTIONS = Options("tasks.t.source")
PACK: dict[str, Callable[[bytes], bytes]] = {
    "": bytes,
    ".gz": gzip.compress,
    ".bz2": bz2.compress,
    ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
}


@pytest.mark.parametrize(
    ("ending", "pack"), [(e, p) for e in TABLES for p in PACK if e != TABLES[0] or not p]
)
def test_every_format_gives_the_same_rows(here, ending, pack):
    frame = texts('été "no", so').assign(more=1)
    path = here / f"t{ending}{pack}"
    path.write_bytes(PACK[pack](content(frame, ending)))
    task = Task(source=str(path), labels={"a": "no", "b": "yes"})
    (read,) = splits.read_labelled("t", task).values()
    assert read["text_a"].tolist() == frame["text"].tolist() and read["text_b"].isna().all()
    assert read["label"].tolist() == ["no", "yes"] * 10
    assert readers.files(task) == [path]
    assert [*readers.read_split(task, "tasks.t", "train")] == ["text", "label"]  # the columns that it needs


# --- CSV and TSV


def test_quoted_texts_may_hold_line_breaks_and_a_file_a_byte_order_mark(here):
    written(here, {"t.csv": 'text,label\n"two\nlines",0\nb,1\n'.encode("utf-8-sig")})
    assert rows("t.csv")["train"] == [("two\nlines", "0"), ("b", "1")]


@pytest.mark.parametrize("separator", [",", "\t"])
def test_columns_without_a_header_are_named_by_the_config(here, separator):
    name = {",": "t.csv", "\t": "t.tsv"}[separator]
    written(here, {name: f"a{separator}x\nb{separator}y"})
    expected = {"train": [("a", "x"), ("b", "y")]}
    assert rows(name, columns=["text", "label"]) == expected
    assert rows(name, columns=["words", "class"], text_a="words", label="class") == expected
    written(here, {name: f"text{separator}sentiment\na{separator}x"})
    assert "header line" not in problem(name)  # one wrong name is no sign of a missing header


def test_encodings(here):
    files: Files = {"t.csv": csv("é").decode().encode("utf-16"), "x/neg.txt": b"caf\xe9", "x/pos.txt": "good"}
    written(here, files)
    assert rows("t.csv", encoding="utf-16")["train"][0] == ("é 0", "a")
    assert rows("x", encoding="latin-1")["train"] == [("café", "neg"), ("good", "pos")]
    for name in ("latin1x", "hex"):
        with pytest.raises(ConfigError, match=rf"tasks.t.encoding: got '{name}', expected an encoding"):
            preflight.load(config({"t": {"source": "t.csv", "encoding": name}}))


@pytest.mark.parametrize("text", ["2001-05-04", "2001-05-04T10:20:30", "1999", "12:30"])
def test_texts_that_look_like_times_or_numbers_stay_texts(here, text):
    labelled = [(text, "a"), (text.replace("1", "2"), "b")]
    array = [{"text": t, "label": label, "more": [t], "deep": {"t": [t]}} for t, label in labelled]
    lines = "\n".join(map(json.dumps, array))
    quoted = "text,label\n" + "".join(f'"{t}",{label}\n' for t, label in labelled)
    written(here, {"t.jsonl": lines, "t.json": json.dumps(array), "t.csv": quoted})
    for name in ("t.jsonl", "t.json", "t.csv"):
        assert rows(name)["train"] == labelled
    (first, _) = rows("t.jsonl", text_a="more", label="more", type="tags")["train"]
    assert first == (text, json.dumps([[0, text]], separators=(",", ":")))


# --- JSON


def test_an_array_is_read_as_lines_are(here):
    lines = content(texts("a"), ".jsonl").decode()
    array = json.dumps([json.loads(line) for line in lines.splitlines()], indent=2)
    written(here, {"t.jsonl": lines, "t.json": array, "pairs.json": array.replace('"text"', '"text_a"')})
    assert rows("t.json") == rows("t.jsonl")
    assert splits.text_columns(Task(source="pairs.json")) == {"text_a": "text_a"}


@pytest.mark.parametrize("indent", [None, 1])
def test_the_innermost_lists_of_a_document_are_rows(here, indent):
    """As in SQuAD: articles, their paragraphs, and questions on these."""
    won = [{"text": "Denver", "answer_start": 4}]
    first = {"context": "In Denver.", "qas": [{"question": "Who?", "answers": []}]}
    second = {"context": "The Denver.", "qas": [{"question": "Which?", "answers": won}]}
    articles = [{"title": "A", "paragraphs": [first]}, {"paragraphs": [second]}]
    (here / "t.json").write_text(json.dumps({"version": "v2.0", "data": articles}, indent=indent))
    assert {"question", "context", "answers", "title"} <= {*registry.names(here / "t.json", OPTIONS)}
    table = registry.table([here / "t.json"], lambda _: ["question", "context", "answers"], OPTIONS)
    assert table["question"].tolist() == ["Who?", "Which?"]
    assert table["context"].tolist() == ["In Denver.", "The Denver."]
    assert [list(answers) for answers in table["answers"]] == [[], won]


def test_lines_with_a_list_called_data_stay_lines(here):
    written(here, {"t.jsonl": '{"data": [{"x": 1}], "text": "a"}\n{"data": [], "text": "b"}\n'})
    assert registry.table([here / "t.jsonl"], lambda _: ["text"], OPTIONS)["text"].tolist() == ["a", "b"]


# --- lists in cells


WRITERS: dict[str, Callable[[list], object]] = {
    "lists": list,
    "Python": str,
    "JSON": json.dumps,
    "numpy": lambda items: str(np.array(items, dtype=object)),
    "numpy text": lambda items: str(np.array(items)),
    "spaces": " ".join,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".parquet"])
def test_lists_in_cells_are_read_however_they_are_written(here, writer, ending):
    sentences = [["the", "dog's", "10\u202f000"], [f"a{i}" for i in range(40)], ["]"]]
    tags = [["DET", "X", "NUM"], ["X"] * 40, ["PUNCT"]]
    frame = pd.DataFrame({"words": sentences, "upos": tags}).map(WRITERS[writer])
    save(frame.map(lambda cell: cell.replace("\n", " ")) if ending == ".tsv" and writer != "lists" else frame,
         here / f"t{ending}")  # fmt: skip
    read = rows(f"t{ending}", type="tags")["train"]
    assert [text.split(" ") for text, _ in read] == [
        [word.replace("\u202f", "\u00a0") for word in words] for words in sentences
    ]
    assert [[tag for _, tag in json.loads(label)] for _, label in read] == tags


def test_spans_in_cells_may_be_objects(here):
    spans = [[{"start": 0, "end": 1, "type": "X"}], []]
    frame = pd.DataFrame({"words": [str(["a", "b"]), str(["c"])], "names": map(str, spans)})
    save(frame, here / "t.csv")
    assert [json.loads(label) for _, label in rows("t.csv", type="spans")["train"]] == [[[0, 0, "X"]], []]


def test_names_and_sentences_in_brackets_are_no_lists(here):
    written(here, {"t.csv": "words,upos\n[ a ],P X P\nb,X\n", "names.csv": "text,label\na,[A]\nb,[B]\n"})
    assert rows("t.csv", type="tags")["train"][0][0] == "[ a ]"
    assert rows("names.csv")["train"] == [("a", "[A]"), ("b", "[B]")]


# --- a line for each word


def words(here, data: str | bytes, ending: str = ".conll", **settings: object) -> list[tuple[str, list[str]]]:
    """The text and the tags of each sentence."""
    written(here, {f"t{ending}": data})
    task = {"type": "tags", "text_a": "1", "label": "2"} | settings
    read = rows(here / f"t{ending}", **task)["train"]
    return [(text, [unit[-1] for unit in json.loads(label)]) for text, label in read]


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_comments_and_marks_of_documents_are_left_out(here, separator):
    sentence = f"a{separator}X\nb{separator}Y\n\n"
    comments = ["# id 1\tdomain=xx", "# newdoc", "#begin document (a); part 000", "-DOCSTART- -X-"]
    data = "".join(f"{comment}\n{sentence}" for comment in comments) + "#end document\n"
    assert words(here, data) == [("a b", ["X", "Y"])] * len(comments)
    frame, _ = conll.read_sentences(here / "t.conll", "tasks.t.source")
    assert [*frame] == ["1", "2", conll.LINE, conll.NAME] == conll.names(here / "t.conll", OPTIONS)
    assert frame[conll.LINE].tolist() == [2, 6, 10, 14]


def test_a_number_sign_may_be_a_word(here):
    assert words(here, "a X\n# Y\n#b Z\n\n") == [("a # #b", ["X", "Y", "Z"])]
    assert words(here, "#\tX\na\tY\n\n") == [("# a", ["X", "Y"])]


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f", "\u3000", " "])
def test_a_space_inside_a_word_does_not_end_it(here, space):
    assert words(here, f"costs\tX\n10{space}000\tY\n") == [("costs 10\u00a0000", ["X", "Y"])]
    if space != " ":
        assert words(here, f"costs  X\n10{space}000 Y \n") == [("costs 10\u00a0000", ["X", "Y"])]


def test_an_underscore_says_that_a_word_has_no_features(here):
    data = conllu("a") + conllu("b").replace("NOUN\t_\t_", "NOUN\t_\tNumber=Sing")
    read = words(here, data, ".conllu", text_a="words", label="feats")
    assert read == [("a", ["_"]), ("b", ["Number=Sing"])]
