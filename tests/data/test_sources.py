"""Files as people have them: which are taken as what, and what is said of the others."""

import bz2
import gzip
import json
import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headspec import text_files
from headspec.config.sections.task import Task
from headspec.config.study import Study
from headspec.data import planned, splits
from headspec.data.sources import readers, split_files
from headspec.data.sources.formats import registry
from headspec.errors import ConfigError, DataError
from headspec.pipeline import preflight
from support.paths import ROOT

Files = dict[str, str | bytes]


def written(folder: Path, files: Files) -> Path:
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)
    return folder


def csv(split: str, n: int = 20) -> str:
    return "text,label\n" + "".join(f"{split} {i},{'ab'[i % 2]}\n" for i in range(n))


def jsonl(split: str, n: int = 20) -> str:
    return "".join(json.dumps({"text": f"{split} {i}", "label": "ab"[i % 2]}) + "\n" for i in range(n))


def parquet(split: str, n: int = 20) -> bytes:
    frame = pd.DataFrame(
        {"text": [f"{split} {i}" for i in range(n)], "label": ["ab"[i % 2] for i in range(n)]}
    )
    sink = pa.BufferOutputStream()
    frame.to_parquet(sink)
    return sink.getvalue().to_pybytes()


def conllu(*words: str) -> str:
    return "".join(f"1\t{word}\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n" for word in words)


def rows(source: Path, **settings: object) -> dict[str, list[tuple[str, str]]]:
    """Split: text and label of each row."""
    read = splits.read_labelled("t", Task(source=str(source), **settings))
    return {split: list(zip(frame["text_a"], frame["label"], strict=True)) for split, frame in read.items()}


def problem(source: Path, **settings: object) -> str:
    with pytest.raises(DataError) as caught:
        planned.prepare_tasks(study(source, **settings))
    return str(caught.value)


def study(source: Path, **settings: object) -> Study:
    return Study(
        study="s", seeds=[0], models={"m": {"source": "m"}}, mixtures={"single": ["t"]},
        tasks={"t": Task(source=str(source), **settings)},
    )  # fmt: skip


def warnings(source: Path, **settings: object) -> list[str]:
    of = study(source, **settings)
    return [line for line in planned.prepare_tasks(of).warnings(of) if line.startswith("tasks.t")]


@pytest.fixture
def here(tmp_path, monkeypatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path / "x"


# splits


@pytest.mark.parametrize(
    ("name", "ending"),
    [("val", ".csv"), ("valid", ".CSV"), ("dev", ".csv.gz"), ("Dev", ".csv"), ("VALIDATION", ".csv")],
)
def test_other_names_of_the_validation_split(here, name, ending):
    content = csv("held").encode()
    held = gzip.compress(content) if ending.endswith(".gz") else content
    written(here, {"train.csv": csv("train"), f"{name}{ending}": held, "test.csv": csv("test")})
    assert {split: read[0] for split, read in rows(here).items()} == {
        "train": ("train 0", "a"),
        "validation": ("held 0", "a"),
    }
    assert {file.name for file in readers.files(Task(source="x"))} == {"train.csv", f"{name}{ending}"}
    said = [] if name == "VALIDATION" else [f"tasks.t: '{name}' is its validation split"]
    assert warnings(here) == said


def test_a_table_that_is_not_used_for_validation_is_named(here):
    written(here, {"train.csv": csv("train"), "test.csv": csv("test")})
    (line,) = warnings(here)
    assert line.startswith("tasks.t: a part of 'train' is held out for validation; the source also has test:")
    assert not warnings(here, validation_split=None)
    assert not warnings(written(here.with_name("y"), {"train.csv": csv("train")}))


def test_a_split_that_is_evaluated_otherwise_is_not_the_validation_split(here):
    written(here, {"train.csv": csv("train"), "dev.csv": csv("dev")})
    assert list(rows(here, further={"t-dev": "dev"})) == ["train"]


SEVERAL = {
    "formats": {"train.csv": csv("a"), "train.jsonl": jsonl("b")},
    "compressed": {"train.csv": csv("a"), "train.csv.gz": gzip.compress(csv("a").encode())},
    "case": {"train.csv": csv("a"), "Train.csv": csv("b")},
    "parts": {"train.parquet": parquet("a"), "train-00000-of-00001.parquet": parquet("b")},
    "treebanks": {"en_ewt-ud-train.conllu": conllu("a"), "en_gum-ud-train.conllu": conllu("b")},
    "folder": {"train.csv": csv("a"), "train/1.csv": csv("b")},
    "formats in a folder": {"train/1.csv": csv("a"), "train/2.jsonl": jsonl("b")},
    "a part twice": {
        "train-00000-of-00001.csv": csv("a"),
        "train-00000-of-00001.csv.gz": gzip.compress(csv("a").encode()),
    },
}


@pytest.mark.parametrize("case", SEVERAL)
def test_two_tables_of_a_split_are_refused(here, case):
    message = problem(written(here, SEVERAL[case]))
    assert message.lower().startswith("tasks.t.source: x/ has several tables of the split 'train': ")
    assert all(name in message for name in SEVERAL[case])


# a split in several files


SHARDS = {f"train-{k:05}-of-00003.parquet": parquet(f"part {k}") for k in range(3)}
PARTS: dict[str, Files] = {
    "shards": SHARDS,
    "shards with digests": {f"{name[:-8]}-0123456789abcdef.parquet": data for name, data in SHARDS.items()},
    "folder": {f"train/{k}.jsonl": jsonl(f"part {k}") for k in range(3)},
    "folder of Spark": {
        "train.csv/_SUCCESS": "",
        **{f"train.csv/part-{k}.csv": csv(f"part {k}") for k in range(3)},
    },
}


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_a_table_are_one_split(here, case):
    written(here, PARTS[case] | {"dev.csv": csv("dev")})
    read = rows(here)
    assert [text for text, _ in read["train"]] == [f"part {k} {i}" for k in range(3) for i in range(20)]
    assert len(read["validation"]) == 20
    assert len(readers.files(Task(source="x"))) == 4


def test_a_treebank_as_it_ships(here):
    """Splits in the names of files; a large split in several."""
    names = {"cs_pdt-ud-train-c": "a", "cs_pdt-ud-train-l": "b", "cs_pdt-ud-dev": "c", "cs_pdt-ud-test": "d"}
    files: Files = {f"{name}.conllu": conllu(word) for name, word in names.items()}
    written(here, files | {"LICENSE.txt": "free", "README.md": "read", "stats.xml": "<a/>"})
    read = rows(here, type="dependencies")
    assert [text for text, _ in read["train"]] == ["a", "b"] and read["validation"][0][0] == "c"


# classes as folders and files


def test_a_file_per_class_has_a_text_in_each_line(here):
    written(here, {"neg.txt": "bad\r\npoor\r\n", "pos.txt": "good\nfine", "README.txt": "about"})
    assert rows(here)["train"] == [("bad", "neg"), ("poor", "neg"), ("good", "pos"), ("fine", "pos")]
    assert readers.notes(Task(source="x"), "tasks.t") == ["tasks.t: left out, beside its classes: README.txt"]
    written(here, {"neg.txt": "caf\xe9".encode("latin-1")})
    assert "line 1 of neg.txt has the byte 0xE9, which is no UTF-8" in problem(here)
    assert rows(here, encoding="latin-1")["train"][0] == ("café", "neg")


def test_what_is_beside_folders_of_classes_is_named(here):
    written(here, {"neg/1": "bad", "pos/1": "good", "urls_neg.txt": "http", ".hidden": ""})
    assert rows(here)["train"] == [("bad", "neg"), ("good", "pos")]
    assert readers.notes(Task(source="x"), "tasks.t") == [
        "tasks.t: left out, beside its classes: urls_neg.txt"
    ]


CLASSES = {f"{split}/{name}/1.txt": "a" for split in ("test", "train") for name in ("neg", "pos")}
SHARD = "train-00000-of-00001"
NO_TEXTS: dict[str, tuple[Files, str]] = {
    "a clone of the hub": ({"README.md": "", f"cola/{SHARD}.parquet": parquet("a")},
        f"x/cola holds Parquet files ({SHARD}.parquet), not the texts of a class; for these tables, the "
        "source is x/cola"),
    "tables in any folder": ({"data/train.csv": csv("a"), "data/dev.csv": csv("b")},
        "x/data holds CSV files (dev.csv, ... (2 in all)), not the texts of a class"),
    "splits with classes": (CLASSES,
        "x/train holds folders (neg/, pos/), not the texts of a class; if these are classes, the source is "
        "x/train"),
    "archives": ({"neg/a.zip": b"PK", "pos/a.zip": b"PK"}, "x/neg holds a.zip, not the texts of a class"),
    "binary": ({"neg/1.pdf": b"%PDF\0", "pos/1.pdf": b"%PDF\0"}, "neg/1.pdf is no text: it has a NUL"),
    "columns": ({"train.txt": "a B\n", "valid.txt": "a B\n"},
        "x/ holds train.txt, valid.txt, and has neither a table per split"),
    "saved splits": ({"dataset_dict.json": "{}", f"train/{SHARD}.arrow": b"", "train/state.json": "{}"},
        "x/ was written by save_to_disk of datasets; expected tables, such as by "
        "load_from_disk('x')['train'].to_parquet('train.parquet')"),
    "a saved split": ({f"{SHARD}.arrow": b"", "state.json": "{}", "dataset_info.json": "{}"},
        "expected tables, such as by load_from_disk('x').to_parquet('train.parquet')"),
    "documents without a split": ({f"{i}.conllu": conllu("a") for i in range(40)},
        "... (40 in all). If these are one split, put them into a folder train/."),
    "two validation splits": ({f"{split}.csv": csv(split) for split in ("train", "dev", "val")},
        "tasks.t.validation_split: the source has dev, val; expected one of these"),
    "a part is missing": ({name: data for name, data in SHARDS.items() if "00001-of" not in name},
        "of 3 parts of a table, x/ lacks 00001"),
    "a pointer of Git LFS": ({"train.parquet": "version https://git-lfs.github.com/spec/v1\nsize 1\n"},
        "train.parquet is a pointer of Git LFS; expected its file, by git lfs pull"),
    "words in .txt": ({"train.txt": "a B\n", "dev.txt": "a B\n"},
        "If dev.txt has a line per word, end its name in .conll."),
}  # fmt: skip


@pytest.mark.parametrize("case", NO_TEXTS)
def test_what_a_folder_holds_is_named(here, case):
    files, fragment = NO_TEXTS[case]
    written(here, files)
    assert fragment in problem(Path("x"))


CUT = str(np.array([f"w{i}" for i in range(2000)])).replace("\n", " ")
NOT_READ: dict[str, tuple[str | bytes, str]] = {
    "cut.csv.gz": (gzip.compress(csv("a").encode())[:-9], "be read as CSV (Truncated compressed stream)"),
    "t.csv.xz": (b"", "'t.csv.xz' is not a table; expected it unpacked"),
    "t.zip": (b"", "'t.zip' is not a table; expected it unpacked"),
    "ner.txt": ("a B\n", "for a line per word, name it ner.conll"),
    "t.tsv": (f"words\tupos\n['a' 'b']\t['X' 'Y']\n{CUT}\t{CUT}\n", "tasks.t.label: t.tsv: row 2 has "),
    "t.conllu": ("\n" + conllu("b").replace("NOUN", "_"), "the sentence at line 2: word 1 has no tag"),
}


@pytest.mark.parametrize("name", NOT_READ)
def test_a_file_that_cannot_be_read_is_named(here, name):
    content, fragment = NOT_READ[name]
    written(here, {name: content})
    assert fragment in problem(here / name, type="tags")


# parallel texts


def test_parallel_files_are_columns(here):
    files: Files = {"train.en": "a dog\nno\n", "train.de": "ein Hund\nnein\n", "val.en": "yes\nso\n"}
    written(here, files | {"val.de.gz": gzip.compress(b"ja\nso\n"), "README.md": ""})
    read = rows(here, type="translation", text_a="en", label="de")
    assert read["train"] == [("a dog", "ein Hund"), ("no", "nein")]
    assert read["validation"] == [("yes", "ja"), ("so", "so")]
    message = problem(here, type="translation", text_a="en", label="fr")
    assert "tasks.t.label: no column 'fr' in x/ (train, 2 files); it has de, en" in message
    written(here, {"train.de": "ein Hund\n"})
    assert (
        problem(here, type="translation", text_a="en", label="de")
        == "tasks.t.source: parallel files have different numbers of lines: train.en 2, train.de 1"
    )


# compression, encodings, headers


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".jsonl", ".json"])
@pytest.mark.parametrize("compress", [".gz", ".bz2", ".zst"])
def test_compressed_tables(here, ending, compress):
    content = (
        jsonl("a") if ending.startswith(".j") else csv("a").replace(",", "\t" if ending == ".tsv" else ",")
    )
    pack: dict[str, Callable[[bytes], bytes]] = {
        ".gz": gzip.compress,
        ".bz2": bz2.compress,
        ".zst": lambda data: pa.compress(data, codec="zstd", asbytes=True),
    }
    written(here, {f"t{ending}{compress}": pack[compress](content.encode())})
    assert rows(here / f"t{ending}{compress}")["train"][1] == ("a 1", "b")


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.conll", "t.csv.gz"])
def test_a_byte_of_another_encoding_is_named_with_its_line(here, name):
    """In a late row, long after what a reader infers types from."""
    make = {"t.jsonl": '{{"text": "{}", "label": "{}"}}', "t.tsv": "{}\t{}", "t.conll": "{} {}\n"}
    line = make.get(name, "{},{}")
    lines = [line.format("text", "label")] * (name != "t.jsonl" and name != "t.conll")
    lines += [line.format(f"row {i}".replace(" ", "_"), "ab"[i % 2]) for i in range(3000)]
    lines += [line.format("café", "a")]
    data = "\n".join(lines).encode("latin-1")
    written(here, {name: gzip.compress(data) if name.endswith(".gz") else data})
    settings = {"type": "tags", "text_a": "1", "label": "2"} if name == "t.conll" else {}
    number = data.count(b"\n", 0, data.index(b"\xe9")) + 1
    assert problem(here / name, **settings) == (
        f"tasks.t.source: line {number} of {name} has the byte 0xE9, which is no UTF-8; "
        "name the encoding in tasks.t.encoding, such as latin-1 or cp1252"
    )
    assert rows(here / name, encoding="latin-1", **settings)["train"][-1][0] == "café"


def test_encodings(here):
    written(here, {"t.csv": csv("é").encode("utf-16"), "t.parquet": parquet("a")})
    assert "line 1 of t.csv has the byte 0xFF" in problem(here / "t.csv")
    assert rows(here / "t.csv", encoding="utf-16")["train"][0] == ("é 0", "a")
    assert "which is no ascii" in problem(here / "t.csv", encoding="ascii")
    assert "tasks.t.encoding: has no effect on t.parquet" in problem(here / "t.parquet", encoding="latin-1")
    for name in ("latin1x", "hex"):
        config = {"study": "s", "seeds": [0], "models": {"m": {"source": "m"}}, "mixtures": {"single": ["t"]}}
        with pytest.raises(ConfigError, match=rf"tasks.t.encoding: got '{name}', expected an encoding"):
            preflight.load(config | {"tasks": {"t": {"source": "x/t.csv", "encoding": name}}})


@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_a_table_without_a_header(here, ending):
    lines = [line.replace(",", "\t" if ending == ".tsv" else ",") for line in csv("a").splitlines()[1:]]
    written(here, {f"t{ending}": "\n".join(lines)})
    source = here / f"t{ending}"
    assert problem(source).startswith(
        f"tasks.t.text_a: no column 'text' in t{ending}; it has a 0, a. If it has no header line, name its "
        "columns in tasks.t.columns."
    )
    assert len(rows(source, columns=["text", "label"])["train"]) == 20
    assert rows(source, columns=["words", "class"], text_a="words", label="class")["train"][0] == ("a 0", "a")
    message = problem(source, columns=["text", "label", "more"])
    assert message.startswith(f"tasks.t.columns: got 3 names, but the first line of t{ending} has 2 columns")
    lines = source.read_text()
    source.write_text(("text,label\n" if ending == ".csv" else "text\tlabel\n") + lines)
    message = problem(source, columns=["text", "label"])
    assert message.startswith(f"tasks.t.columns: got text, label, which is the header line of t{ending}")
    assert "columns: has no effect" in problem(
        written(here, {"t.jsonl": jsonl("a")}) / "t.jsonl", columns=["a"]
    )


def test_a_header_with_one_wrong_name_is_a_header(here):
    written(here, {"t.csv": "text,sentiment\na,b\n"})
    assert "header line" not in problem(here / "t.csv")


# what cells hold


TIMES = ["2001-05-04", "2001-05-04T10:20:30", "1999", "12:30"]


@pytest.mark.parametrize("text", TIMES)
def test_text_that_looks_like_a_time_or_number_is_text(here, text):
    labelled = [(text, "a"), (text.replace("1", "2"), "b")]
    array = [{"text": t, "label": label, "more": [t], "deep": {"t": [t]}} for t, label in labelled]
    quoted = "text,label\n" + "".join(f'"{t}",{label}\n' for t, label in labelled)
    written(
        here, {"t.jsonl": "\n".join(map(json.dumps, array)), "t.json": json.dumps(array), "t.csv": quoted}
    )
    for name in ("t.jsonl", "t.json", "t.csv"):
        assert rows(here / name)["train"] == labelled


@pytest.mark.parametrize("numbers", [["1", "2"], ["1.5", "-2e3"], ["1", ""]])
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_numbers_without_quotes_are_no_text(here, numbers, ending):
    tab = "\t" if ending == ".tsv" else ","
    written(here, {f"t{ending}": f"text{tab}label\n" + "".join(f"{n}{tab}a\n" for n in numbers)})
    assert f"column 'text' of t{ending} holds" in problem(here / f"t{ending}")


def test_dates_of_words_are_words(here):
    row = {"words": ["2001-05-04", "2001-05-05"], "upos": ["X", "Y"]}
    written(here, {"t.jsonl": json.dumps(row) + "\n"})
    assert rows(here / "t.jsonl", type="tags")["train"][0][0] == "2001-05-04 2001-05-05"


BROKEN = {
    "a line": ('{"text": "a", "label": 1}\n\n{"text": "b", "label"\n', "line 3, column 22: Expecting ':'"),
    "a list": ('{"text": "a"}\n["b", 1]\n', "line 2 is ['b', 1], expected an object for each row"),
    "kinds": ('{"text": "a"}\n{"text": 2}\n', "line 2 has a number in 'text', where lines before have text"),
    "an array": (
        '[{"text": "a"},\n {"text": "b"}\n {"text": "c"}]',
        "line 3, column 2: Expecting ',' delimiter",
    ),
    "an array of texts": ('["a", "b"]', "item 1 is 'a', expected an object for each row"),
}


@pytest.mark.parametrize("case", BROKEN)
@pytest.mark.parametrize("ending", [".json", ".jsonl"])
def test_broken_json_is_named_with_its_line(here, case, ending):
    content, fragment = BROKEN[case]
    written(here, {f"t{ending}": content})
    message = problem(here / f"t{ending}")
    assert message.startswith(f"tasks.t.source: t{ending} cannot be read as JSON lines (")
    assert fragment in message


def test_an_array_is_read_as_lines_are(here):
    array = json.dumps([json.loads(line) for line in jsonl("a").splitlines()], indent=2)
    written(here, {"t.json": array, "pairs.json": array.replace('"text"', '"text_a"')})
    assert rows(here / "t.json") == {"train": [(f"a {i}", "ab"[i % 2]) for i in range(20)]}
    assert splits.text_columns(Task(source=str(here / "pairs.json"))) == {"text_a": "text_a"}


# lists in cells


WRITERS: dict[str, Callable[[list], str]] = {
    "Python": str,
    "JSON": json.dumps,
    "numpy": lambda items: str(np.array(items, dtype=object)),
    "numpy text": lambda items: str(np.array(items)),
    "spaces": " ".join,
}


@pytest.mark.parametrize("writer", WRITERS)
@pytest.mark.parametrize("ending", [".csv", ".tsv"])
def test_lists_written_into_cells(here, writer, ending):
    sentences = [["the", "dog's", "10\u202f000"], [f"a{i}" for i in range(40)], ["]"]]
    tags = [["DET", "X", "NUM"], ["X"] * 40, ["PUNCT"]]
    cells = {"words": map(WRITERS[writer], sentences), "upos": map(WRITERS[writer], tags)}
    here.mkdir()
    if ending == ".tsv":
        cells = {name: [cell.replace("\n", " ") for cell in column] for name, column in cells.items()}
        lines = ["\t".join(cells), *("\t".join(row) for row in zip(*cells.values(), strict=True))]
        (here / "t.tsv").write_text("\n".join(lines), encoding="utf-8")
    else:
        pd.DataFrame({name: list(column) for name, column in cells.items()}).to_csv(
            here / "t.csv", index=False
        )
    read = rows(here / f"t{ending}", type="tags")["train"]
    assert [text.split(" ") for text, _ in read] == [
        [word.replace("\u202f", "\u00a0") for word in words] for words in sentences
    ]
    assert [[tag for _, tag in json.loads(label)] for _, label in read] == tags


def test_spans_in_cells_may_be_objects(here):
    spans = [[{"start": 0, "end": 1, "type": "X"}], []]
    frame = pd.DataFrame({"words": [str(["a", "b"]), str(["c"])], "names": map(str, spans)})
    here.mkdir()
    frame.to_csv(here / "t.csv", index=False)
    assert [json.loads(label) for _, label in rows(here / "t.csv", type="spans")["train"]] == [
        [[0, 0, "X"]],
        [],
    ]


def test_a_sentence_in_brackets_is_no_list(here):
    written(here, {"t.csv": "words,upos\n[ a ],P X P\nb,X\n"})
    assert rows(here / "t.csv", type="tags")["train"][0][0] == "[ a ]"


def test_lists_are_no_labels(here):
    written(
        here,
        {"t.csv": "text,label\na,\"['x', 'y']\"\nb,\"['x']\"\n", "names.csv": "text,label\na,[A]\nb,[B]\n"},
    )
    assert "tasks.t.label: row 1 of t.csv has ['x', 'y'] in column 'label'" in problem(here / "t.csv")
    assert rows(here / "names.csv")["train"] == [("a", "[A]"), ("b", "[B]")]


# columns of words


def words(
    here: Path, content: str, ending: str = ".conll", **settings: object
) -> list[tuple[str, list[str]]]:
    written(here, {f"t{ending}": content})
    task = {"type": "tags", "text_a": "1", "label": "2"} | settings
    read = rows(here / f"t{ending}", **task)["train"]
    return [(text, [unit[-1] for unit in json.loads(label)]) for text, label in read]


COMMENTS = ["# id 1\tdomain=xx", "# newdoc", "#begin document (a); part 000", "-DOCSTART- -X-"]


@pytest.mark.parametrize("separator", [" ", "\t"])
def test_comments_of_columns_are_left_out(here, separator):
    sentence = f"a{separator}X\nb{separator}Y\n\n"
    content = "".join(f"{comment}\n{sentence}" for comment in COMMENTS) + "#end document\n"
    assert words(here, content) == [("a b", ["X", "Y"])] * len(COMMENTS)


def test_a_number_sign_may_be_a_word(here):
    assert words(here, "a X\n# Y\n#b Z\n\n") == [("a # #b", ["X", "Y", "Z"])]
    assert words(here, "#\tX\na\tY\n\n") == [("# a", ["X", "Y"])]


@pytest.mark.parametrize("space", ["\u00a0", "\u2009", "\u202f", "\u3000", " "])
def test_a_space_inside_a_word_does_not_end_it(here, space):
    assert words(here, f"costs\tX\n10{space}000\tY\n") == [("costs 10\u00a0000", ["X", "Y"])]
    if space != " ":
        assert words(here, f"costs  X\n10{space}000 Y \n") == [("costs 10\u00a0000", ["X", "Y"])]


def test_an_underscore_says_that_a_word_has_no_features(here):
    line = "{}\t{}\t_\t{}\t_\t{}\t{}\tdep\t_\t_\n"
    content = line.format(1, "a", "X", "_", 0) + line.format(2, "b", "Y", "Number=Sing", 1) + "\n"
    settings = {"text_a": "words", "ending": ".conllu"}
    assert words(here, content, label="feats", **settings) == [("a b", ["_", "Number=Sing"])]
    written(here, {"t.conllu": conllu(*"abcdefgh")})
    message = problem(here / "t.conllu", type="tags", label="xpos", validation_examples=2)
    assert "has only _ in 2 rows, but a tags task needs at least two tags" in message


@pytest.mark.parametrize(("tag", "fragment"), [("S-X", "convert it from BIOES"), ("I-X", "unlike in IOB1")])
def test_other_schemes_than_bio_are_named(here, tag, fragment):
    written(here, {"t.conll": f"a {tag}\nb O\n"})
    assert fragment in problem(here / "t.conll", type="spans", text_a="1", label="2")


# names


@pytest.mark.parametrize("name", ["na{set}me.csv", "{split}/train.csv", "{ x}.csv"])
def test_names_that_snakemake_would_fill_in_are_refused(here, name):
    written(here, {name: csv("a")})
    source = here / (name.partition("/")[0])
    _, errors = preflight.problems(study(source))
    (message,) = [str(error) for error in errors if "tasks.t" in str(error)]
    assert message == (
        f"tasks.t.source: got 'x/{name}', with braces that Snakemake takes for a wildcard; "
        "expected a name without them"
    )


def test_other_braces_are_names(here):
    written(here, {"a{}b.csv": csv("a")})
    _, errors = preflight.problems(study(here / "a{}b.csv"))
    assert not [error for error in errors if "tasks.t" in str(error)]


# classes


def test_many_numbers_as_classes_are_doubted(here):
    written(here, {"t.csv": "text,label\n" + "".join(f"row {i},{i % 200}\n" for i in range(1000))})
    assert warnings(here / "t.csv") == [
        "tasks.t.label: 200 different numbers are taken as classes, from 0 to 199; for scores, set "
        "tasks.t.type to regression"
    ]
    written(here, {"few.csv": "text,label\n" + "".join(f"row {i},{i % 77}\n" for i in range(1000))})
    written(here, {"half.csv": "text,label\n" + "".join(f"row {i},{i % 9 / 2}\n" for i in range(1000))})
    assert not warnings(here / "few.csv") and len(warnings(here / "half.csv")) == 1


def test_a_class_that_training_lacks_among_many(here):
    written(here, {"train.csv": "text,label\n" + "".join(f"row {i},class {i % 150}\n" for i in range(300))})
    written(here, {"dev.csv": "text,label\na,class 1\nb,klass 2\n"})
    message = problem(here)
    assert "row 2 of dev.csv has label 'klass 2'" in message
    assert "... (150 in all). Did you mean 'class 2'?" in message


# the page


PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
EXAMPLES = [re.findall(r"`([\w/.-]+\.\w+)`", row) for row in re.findall(r"^\| (`\w[^|]+) \|", PAGE, re.M)]


@pytest.mark.parametrize("files", EXAMPLES, ids=lambda files: files[0])
def test_files_of_the_page_are_taken(here, files):
    written(here, dict.fromkeys(files, ""))
    held = split_files.find_splits(here / files[0].partition("/")[0], "tasks.t.source", columns=("en", "de"))
    assert sorted(file for each in held.values() for file in each.files) == sorted(
        here / file for file in files
    )
    assert split_files.match_split("train", held)


def test_formats_of_the_page_are_those_that_are_read():
    endings = {
        e for row in re.findall(r"^\| (`\.[^|]+) \|", PAGE, re.M) for e in re.findall(r"`(\.\w+)`", row)
    }
    assert endings == set(registry.FORMATS)
    assert all(f"`.csv{e}`" in PAGE or f"`{e}`" in PAGE for e in text_files.COMPRESSED)
    assert len(re.findall(r"[^\s|]+", PAGE)) <= 300
