"""Files as users have them: which split each belongs to, and messages on the others."""

import gzip
import re
import sys
from pathlib import Path

import numpy as np
import pytest

from headspec.config.sections.task import Task
from headspec.data.sources import readers, sentences, split_files, text_files
from headspec.data.sources.formats import registry
from headspec.errors import listing
from support.data.sources import Files, conllu, content, csv, rows, texts, warnings, written
from support.paths import ROOT

# --- splits


@pytest.mark.parametrize(
    ("name", "ending"),
    [("val", ".csv"), ("valid", ".CSV"), ("dev", ".csv.gz"), ("Dev", ".csv"), ("VALIDATION", ".csv")],
)
def test_the_validation_split_has_other_usual_names(here, name, ending):
    held = gzip.compress(csv("held")) if ending.endswith(".gz") else csv("held")
    written("x", {"train.csv": csv("train"), f"{name}{ending}": held, "test.csv": csv("test")})
    read = {split: pairs[0] for split, pairs in rows("x").items()}
    assert read == {"train": ("train 0", "a"), "validation": ("held 0", "a")}
    assert [file.name for file in readers.files(Task(source="x"))] == sorted(["train.csv", f"{name}{ending}"])
    assert warnings("x") == [f"tasks.t: '{name}' is its validation split"] * (name != "VALIDATION")
    # unless another is named, it is evaluated otherwise, or none is wanted
    if name != "VALIDATION":
        assert [*rows("x", further={"t-held": name})] == ["train"]
    assert [*rows("x", validation_split=None)] == ["train"]
    assert rows("x", validation_split="test")["validation"][0] == ("test 0", "a")


def test_tables_that_are_not_used_for_validation_are_named(here):
    written("x", {"train.csv": csv("train"), "test.csv": csv("test")})
    (line,) = warnings("x")
    assert line.startswith("tasks.t: a part of 'train' is held out for validation; the source also has test:")
    assert not warnings("x", validation_split=None)
    assert not warnings(written("y", {"train.csv": csv("train")}))


SHARDS = {f"train-{k:05}-of-00003": content(texts(f"part {k}"), ".parquet") for k in range(3)}
PARTS: dict[str, Files] = {
    "shards": {f"{name}.parquet": data for name, data in SHARDS.items()},
    "shards with digests": {f"{name}-0123456789abcdef.parquet": data for name, data in SHARDS.items()},
    "folder": {f"train/{k}.jsonl": content(texts(f"part {k}"), ".jsonl") for k in range(3)},
    "folder of Spark": {"train.csv/_SUCCESS": ""}
    | {f"train.csv/{k}.csv": csv(f"part {k}") for k in range(3)},
}


@pytest.mark.parametrize("case", PARTS)
def test_parts_of_a_table_are_one_split(here, case):
    written("x", PARTS[case] | {"dev.csv": csv("dev")})
    read = rows("x")
    assert [text for text, _ in read["train"]] == [f"part {k} {i}" for k in range(3) for i in range(20)]
    assert len(read["validation"]) == 20 and len(readers.files(Task(source="x"))) == 4


def test_a_treebank_is_taken_as_it_ships(here):
    """Splits in the names of files; a large split in several."""
    names = {"cs_pdt-ud-train-c": "a", "cs_pdt-ud-train-l": "b", "cs_pdt-ud-dev": "c", "cs_pdt-ud-test": "d"}
    files: Files = {f"{name}.conllu": conllu(word) for name, word in names.items()}
    written("x", files | {"LICENSE.txt": "free", "README.md": "read", "stats.xml": "<a/>"})
    read = rows("x", type="dependencies")
    assert [text for text, _ in read["train"]] == ["a", "b"] and read["validation"][0][0] == "c"


CLASSES: dict[str, tuple[Files, str]] = {
    "file": ({"neg.txt": "bad\r\npoor\r\n", "pos.txt": "good\nfine", "README.txt": "about"}, "README.txt"),
    "folder": ({"neg/1": "\nbad\n", "neg/2": "poor", "pos/1": "good", "pos/2": "fine", "urls_neg.txt": "http",
        ".hidden": ""}, "urls_neg.txt"),
}  # fmt: skip


@pytest.mark.parametrize("case", CLASSES)
def test_classes_are_files_with_a_text_in_each_line_or_folders_with_a_text_in_each_file(here, case):
    files, beside = CLASSES[case]
    written("x", files)
    assert rows("x")["train"] == [("bad", "neg"), ("poor", "neg"), ("good", "pos"), ("fine", "pos")]
    assert readers.notes(Task(source="x"), "tasks.t") == [
        f"tasks.t: left out, not one of its classes: {beside}"
    ]
    if case == "folder":  # a byte of another encoding in one of many files is no reason to refuse all
        written("x", {"pos/3": b"caf\xe9 "})
        assert rows("x")["train"][-1] == ("caf\ufffd", "pos")


@pytest.mark.parametrize("seed", range(5))
def test_whatever_is_beside_tables_is_named(here, seed):
    rng = np.random.default_rng(seed)
    stems = rng.permuted(["README", "notes", "a b", "LICENSE", "_SUCCESS", "train", "Makefile", "x.y"])[:4]
    endings = rng.permuted(["", ".md", ".zip", ".pdf", ".py", ".txt"])[:4]
    files = {f"{stem}{ending}": "text" for stem, ending in zip(stems, endings, strict=True)}
    written("x", {"train.csv": csv("a"), "dev/0.csv": csv("b"), "docs/0.html": "<p>", **files})
    (line,) = readers.notes(Task(source="x"), "tasks.t")[1:]
    assert line == f"tasks.t: left out, not one of its tables: {listing([*sorted(files), 'docs'])}"
    (here / "x" / "dataset_info.json").write_text("{}")  # of the tables
    assert readers.notes(Task(source="x"), "tasks.t")[1:] == [line]


def test_folders_of_classes_may_be_in_folders_of_splits(here):
    texts = {
        "train/neg/1.txt": "bad",
        "train/pos/1.txt": "good",
        "test/neg/1.txt": "poor",
        "test/pos/1.txt": "fine",
    }
    written("x", {**texts, "train/pos/README": "about", "train/urls.txt": "http"})
    assert rows("x", validation_split="test") == {
        "train": [("bad", "neg"), ("good", "pos")],
        "validation": [("poor", "neg"), ("fine", "pos")],
    }
    assert readers.notes(Task(source="x", validation_split="test"), "tasks.t") == [
        "tasks.t: left out, not one of its classes: urls.txt",
        "tasks.t: left out, not one of its texts: pos/README",
    ]


def test_parallel_files_are_columns(here):
    files: Files = {"train.en": "a dog\nno\n", "train.de": "ein Hund\nnein\n", "val.en": "yes\nso\n"}
    written("x", files | {"val.de.gz": gzip.compress(b"ja\nso\n"), "README.md": ""})
    assert rows("x", type="translation", text_a="en", label="de") == {
        "train": [("a dog", "ein Hund"), ("no", "nein")],
        "validation": [("yes", "ja"), ("so", "so")],
    }


#: characters that Python's `splitlines` and universal line ends take for ends of lines
NO_ENDS = ["\r", "\x0b", "\x0c", "\x1c", "\x85", "\u2028"]


@pytest.mark.parametrize("end", ["\n", "\r\n"])
@pytest.mark.parametrize("inside", NO_ENDS)
def test_a_line_ends_at_a_line_feed_only(here, inside, end):
    english, german = [f"a{inside} b {i}" * (i != 2) for i in range(4)], [f"c {i}" for i in range(4)]
    files: Files = {"train.en": end.join([*english, ""]), "train.de": end.join(german)}
    written("parallel", files)
    read = rows("parallel", type="translation", text_a="en", label="de")["train"]
    assert [text for _, text in read] == german and [text for text, _ in read][::3] == english[::3]
    written("classes", {"neg.txt": end.join(english), "pos.txt": end.join(german)})
    assert rows("classes")["train"] == [(t, "neg") for t in english] + [(t, "pos") for t in german]
    lines = [f"a{inside}b X\n"[:-1], "c Y"]
    written(here, {"t.conll": end.join([*lines, "", *lines])})
    assert len(rows("t.conll", type="tags", text_a="1", label="2")["train"]) == 2
    written(here, {"s.txt": end.join(english * 6 + [f"{inside}{i} x" for i in range(9)])})
    frame, counts = sentences.from_file("s.txt", 100, 0)
    assert counts["lines"] == 33 and len(frame) == 12


def test_a_package_is_located_without_importing_it(tmp_path, monkeypatch):
    written(tmp_path / "carries_data", {"r.csv": csv("a"), "__init__.py": "raise RuntimeError('imported')"})
    monkeypatch.syspath_prepend(tmp_path)
    task = Task(source="package:carries_data/r.csv")
    assert len(rows(str(task.source))["train"]) == 20 and "carries_data" not in sys.modules
    assert readers.version(str(task.source)) == "" and [path.name for path in readers.files(task)] == [
        "r.csv"
    ]


@pytest.mark.parametrize("source", ["x", "x/train.csv"])
def test_the_version_of_a_source_is_that_of_names_in_it_and_contents(here, source):
    written("x", {"train.csv": csv("a"), "notes.md": "x"})

    def version(source: str) -> str:
        return readers.version(source, readers.files(Task(source=source)))

    before = version(source)
    assert {version(f"./{source}"), version(f"x/../{source}"), version(str(Path(source).absolute()))} == {
        before
    }
    (here / "x").rename(here / "y {a}")
    assert version(moved := source.replace("x", "y {a}", 1)) == before
    (here / "y {a}" / "notes.md").write_text("y")
    assert version(moved) == before
    (here / "y {a}" / "train.csv").write_bytes(csv("b"))
    assert version(moved) != before


# --- the page


PAGE = (ROOT / "docs" / "files.md").read_text(encoding="utf-8")
EXAMPLES = [re.findall(r"`([\w/.-]+\.\w+)`", row) for row in re.findall(r"^\| (`\w[^|]+) \|", PAGE, re.M)]


@pytest.mark.parametrize("files", EXAMPLES, ids=lambda files: files[0])
def test_files_of_the_page_are_taken(here, files):
    written("x", dict.fromkeys(files, ""))
    held = split_files.find_splits(
        Path("x", files[0].partition("/")[0]), "tasks.t.source", columns=("en", "de")
    )
    assert {file for each in held.values() for file in each.files} == {Path("x", file) for file in files}
    assert split_files.match_split("train", held)


def test_formats_of_the_page_are_those_that_are_read():
    endings = re.findall(r"`(\.\w+)`", " ".join(re.findall(r"^\| (`\.[^|]+) \|", PAGE, re.M)))
    assert {*endings} == {*registry.FORMATS}
    assert all(f"`.csv{e}`" in PAGE or f"`{e}`" in PAGE for e in text_files.COMPRESSED)
