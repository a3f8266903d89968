"""Tables in every format: the same rows and cells."""

import bz2
import gzip
import json
from collections.abc import Callable
from random import Random

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headspec.config.sections.task import Task
from headspec.data import splits
from headspec.data.sources import readers
from headspec.data.sources.formats import conll, registry
from headspec.data.sources.formats.options import Options
from headspec.errors import ConfigError, DataError
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


@pytest.mark.parametrize(
    ("name", "delimiter", "written_as"),
    [
        ("t.csv", ";", ";"),
        ("t.csv", "\t", "\t"),
        ("t.csv", r"\t", "\t"),
        ("t.tsv", ",", ","),
        ("t.tsv", "|", "|"),
    ],
)
def test_delimiters_are_named_by_the_config(here, name, delimiter, written_as):
    """Quotes are those of CSV wherever tabs of a TSV do not separate."""
    frame = pd.DataFrame({"text": [f"so{written_as} {i}" for i in range(4)], "label": [*"abab"]})
    written(here, {name: frame.to_csv(index=False, sep=written_as)})
    assert rows(name, delimiter=delimiter)["train"] == list(frame.itertuples(index=False, name=None))
    written(here, {name: frame.to_csv(index=False, header=False, sep=written_as)})
    read = rows(name, delimiter=delimiter, columns=["text", "label"])
    assert read["train"][0] == (f"so{written_as} 0", "a")


@pytest.mark.parametrize("delimiter", ["", ";;", "a", '"', "é", "\n"])
def test_delimiters_are_one_character(here, delimiter):
    written(here, {"t.csv": csv("a")})
    with pytest.raises(ConfigError, match=r"tasks.t.delimiter: got .*, expected one character, such as ';'"):
        preflight.load(config({"t": {"source": "t.csv", "delimiter": delimiter}}))


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.csv.gz"])
def test_empty_cells_beyond_the_last_column_do_not_count(here, name):
    between = "\t" if name == "t.tsv" else ","
    lines = [["text", "label", ""], ["a", "x"], ["b", "y", ""], ["c", "", ""], ["d", ""], ["e", "x", "", ""]]
    data = "\r\n".join(map(between.join, lines)).encode()
    written(here, {name: gzip.compress(data) if name.endswith(".gz") else data})
    expected = [("a", "x"), ("b", "y"), ("e", "x")]
    assert rows(name, unlabelled="")["train"] == expected
    assert rows(name, unlabelled=["", "label"], columns=["text", "label"])["train"] == expected


@pytest.mark.parametrize("name", ["t.csv", "t.tsv"])
def test_a_carriage_return_in_a_cell_ends_no_row(here, name):
    """pyarrow and csv take one outside quotes for the end of a line."""
    between = "\t" if name == "t.tsv" else ","
    lines = [["text", "label"], ["a\rb", "x\r"], ["c\r", "y"], ["\ue000d", "x"]]
    written(here, {name: "\r\n".join(map(between.join, lines)) + "\r"})
    assert rows(name)["train"] == [("a\rb", "x"), ("c\r", "y"), ("\ue000d", "x")]


@pytest.mark.parametrize("encoding", [None, "utf-8", "UTF-8-SIG", "utf-16"])
def test_byte_order_marks_count_where_no_line_begins(here, encoding):
    """As `cat` leaves them inside; another is a character of a text."""
    written(here, {"t.csv": "\ufefftext,label\na,x\n\ufeffb\ufeff,y\n".encode(encoding or "utf-8")})
    assert rows("t.csv", encoding=encoding)["train"] == [("a", "x"), ("b\ufeff", "y")]
    written("x", {"neg.txt": "\ufeffa\n\ufeffb\n", "pos.txt": "c"})
    assert rows("x")["train"] == [("a", "neg"), ("b", "neg"), ("c", "pos")]


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.parquet"])
def test_rows_that_may_be_headers_are_rows(here, name):
    """A text that is the name of its only column, and a first row without a header."""
    save(pd.DataFrame({"text": ["a", "text", "b"]}), here / name)
    assert [text for text, _ in rows(name, type="text")["train"]] == ["a", "text", "b"]
    if name in ("t.csv", "t.tsv"):
        frame = pd.DataFrame({"a": ["a", "b", "a"], "x": ["x", "y", "x"]})
        save(frame, here / name)
        assert len(rows(name, columns=["text", "label"])["train"]) == 4


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


@pytest.mark.parametrize("seed", range(10))
def test_number_signs_are_words_anywhere_in_sentences(seed, here):
    """Also sentences of nothing else, between comments with another number of columns."""
    rng, between = Random(seed), Random(seed).choice([" ", "\t"])
    sentences = [[("a", "X"), ("b", "Y")]]
    sentences += [[(rng.choice("##a"), rng.choice("XY")) for _ in range(rng.randint(1, 3))] for _ in range(9)]
    rng.shuffle(sentences)
    data = ""
    for sentence in sentences:
        comment = rng.choice(["", "# of three words\n", "# of three words\n\n", "# alone\n"])
        data += comment + "".join(f"{word}{between}{tag}\n" for word, tag in sentence) + "\n"
    expected = [(" ".join(word for word, _ in each), [tag for _, tag in each]) for each in sentences]
    assert words(here, data) == expected


EMPTY = "3.1\te\t_\tX\t_\t_\t_\t_\t_\t_\n"
TREE = "1-2\tdel\t_\t_\t_\t_\t_\t_\t_\t_\n" + "".join(
    f"{i}\t{word}\t_\t{tag}\t_\t_\t{i - 1}\tdep\t_\t_\n"
    for i, (word, tag) in enumerate(["dA", "eB", "cC"], 1)
)


@pytest.mark.parametrize("ending", [".conllu", ".conll", ".tsv", ".csv"])
def test_conllu_is_read_under_other_endings(here, ending):
    data = f"# sent_id = s\n{TREE}{EMPTY}\n# text = x\n{TREE}\n"
    expected = [("d e c", ["A", "B", "C"])] * 2
    assert words(here, data, ending, text_a="words", label="upos") == expected
    frame, counts = conll.read_sentences(here / f"t{ending}", "tasks.t.source")
    assert counts == {"multiword_tokens": 2, "empty_nodes": 1}
    assert frame[conll.NAME].fillna("").tolist() == ["s", ""]
    assert [*frame] == registry.names(here / f"t{ending}", OPTIONS)
    if ending != ".conllu":
        assert words(here, data, ending, text_a="2", label="4") == expected


def test_ten_columns_without_numbers_of_words_are_columns(here):
    assert words(here, "\t".join(["a-b", "X", *"________"]) + "\n") == [("a-b", ["X"])]


@pytest.mark.parametrize("separator", ["\t", " ", "   "])
def test_columns_may_vary_from_sentence_to_sentence(here, separator):
    """As in CoNLL-2012: a column for each predicate, before that of coreference."""
    lines = ["#begin document (x); part 000"]
    for predicates in (0, 2, 1):
        for word, tag in (("a", "X"), ("b", "Y")):
            lines.append(separator.join(["x", "0", word, tag, *["*"] * predicates, "-"]))
        lines.append("")
    data = "\n".join([*lines, "#end document"])
    assert words(here, data, text_a="3", label="4") == [("a b", ["X", "Y"])] * 3
    with pytest.raises(
        DataError, match=r"line 5 of t.conll has 7 columns, but line 2 has 5: column 5 may not"
    ):
        words(here, data, text_a="3", label="5")


def test_white_space_at_the_end_of_a_line_of_words_does_not_count(here):
    expected = [("a b", ["X", "Y"]), ("c", ["Z"])]
    for ends in (["", "", ""], ["", "\t", "\t\t"], ["\t", "", ""], ["\t", "\t", ""], [" ", "\t ", "\r"]):
        lines = (f"{line}{end}\n" for line, end in zip(["a\tX", "b\tY", "c\tZ"], ends, strict=True))
        first, second, third = lines
        assert words(here, f"{first}{second} \t\n{third}") == expected
    last = "a\tX\t_\nb\tY\t\n\nc\tZ\t\n"  # columns that are empty at places
    assert words(here, last) == expected and "3" in conll.names(here / "t.conll", OPTIONS)


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f", "\u3000", " "])
def test_a_space_inside_a_word_does_not_end_it(here, space):
    assert words(here, f"costs\tX\n10{space}000\tY\n") == [("costs 10\u00a0000", ["X", "Y"])]
    if space != " ":
        assert words(here, f"costs  X\n10{space}000 Y \n") == [("costs 10\u00a0000", ["X", "Y"])]


def test_an_underscore_says_that_a_word_has_no_features(here):
    data = conllu("a") + conllu("b").replace("NOUN\t_\t_", "NOUN\t_\tNumber=Sing")
    read = words(here, data, ".conllu", text_a="words", label="feats")
    assert read == [("a", ["_"]), ("b", ["Number=Sing"])]
