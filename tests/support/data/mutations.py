"""Changes of good tables as those of users are changed: a function of a few lines for each, by name.

A function writes a table at random. What is read must equal the table; otherwise planning refuses the files,
or tells of them, in words that `mutation` expects. A report of a user is a new function, or a new item to
draw.
"""

import bz2
import csv
import gzip
import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass, replace
from random import Random
from typing import Any

from support.data import good_tables as good
from support.data.good_tables import Table
from support.data.sources import Files

#: matches nothing: a change without a meaning, of which nothing is said
UNTOLD = "(?!)"
BMP = list(map(chr, range(0xD800)))
PUNCTUATION = [c for c in BMP if unicodedata.category(c)[0] == "P"]
SPACES = [c for c in BMP if c.isspace() and c != "\n"]
INVISIBLE = ["\u200b", "\u200c", "\u200e", "\u2060", "\u00ad", "\ufeff"]


@dataclass
class Changed:
    """A table, and files in which it is written, of which a single one is the source, otherwise their folder.

    `named` is what only this change is called, such as the name of a file.
    """

    table: Table
    files: Files
    named: str = UNTOLD

    @property
    def source(self) -> str:
        (first, *others) = self.files
        return "." if others or "/" in first else first


Mutation = Callable[[Random], Changed]
#: the words of planning (a pattern, without case) about a change that is not read right, and the change
MUTATIONS: dict[str, tuple[str, Mutation]] = {}


def mutation(says: str) -> Callable[[Mutation], Mutation]:
    """Register a mutation."""

    def register(make: Mutation) -> Mutation:
        MUTATIONS[make.__name__.replace("_", " ")] = says, make
        return make

    return register


@mutation(UNTOLD)
def nothing(rng: Random) -> Changed:
    table = rng.choice([good.classes, good.label_sets, good.tagged])(rng)
    forms = [good.any_file] if isinstance(table.rows[0][1], str) else []
    if forms:
        return Changed(table, rng.choice([*forms, good.class_folders, good.class_files])(table, rng))
    if table.keys["type"] == "tags" and rng.random() < 0.5:
        table.keys |= good.COLUMNS
        return Changed(table, good.columns(table, rng.choice("\t ")))
    return Changed(table, good.any_file(table, rng, (".jsonl", ".json", ".parquet")))


# --- bytes and lines


@mutation(UNTOLD)
def compression(rng: Random) -> Changed:
    table = good.classes(rng)
    ((name, data),) = good.any_file(table, rng, (".csv", ".tsv", ".jsonl")).items()
    ending, pack = rng.choice([(".gz", gzip.compress), (".bz2", bz2.compress)])
    return Changed(table, {f"{name}{ending}": pack(str(data).encode())})


@mutation("encoding|UTF-8|0x")
def encoding(rng: Random) -> Changed:
    table = good.classes(rng)
    name = rng.choice(["utf-8", "utf-8-sig", "utf-16", "utf-16-le", "utf-32", "gb18030"])
    if rng.random() < 0.5:
        table.keys["encoding"] = name
    files = good.any_file(table, rng, (".csv", ".tsv", ".jsonl", ".json"))
    return Changed(table, {file: str(data).encode(name) for file, data in files.items()})


@mutation(r"\\r")
def ends_of_lines(rng: Random) -> Changed:
    table = good.classes(rng)
    end = rng.choice(["\r\n", "\r", "\n\n", "\r\n\r\n"])
    files = rng.choice([good.any_file(table, rng, (".csv", ".tsv", ".jsonl")), good.class_files(table, rng)])
    if "\n\n" in end.replace("\r", "") and len(files) > 1:
        end = "\r\n"  # an empty line is an empty text there
    return Changed(table, {file: str(data).replace("\n", end).encode() for file, data in files.items()})


@mutation("quote")
def literal_quotes(rng: Random) -> Changed:
    """Quotes without a meaning between tabs, as in GLUE."""
    table = good.classes(rng)
    some = rng.sample(range(len(table.rows)), rng.randint(1, 6))
    marked = rng.choice(['"{}', '{}"', '"{}"', '"{}" so', 'so "{}"'])
    rows = [(marked.format(t) if i in some else t, label) for i, (t, label) in enumerate(table.rows)]
    table = Table(rows)
    return Changed(table, good.file(table, ".tsv"))


@mutation(UNTOLD)
def long_cells(rng: Random) -> Changed:
    table = good.classes(rng)
    table.rows[3] = (f"{'long ' * rng.choice([30_000, 300_000])}text", table.rows[3][1])
    return Changed(table, good.any_file(table, rng))


# --- cells and names


def _cells(table: Table, rng: Random) -> Files:
    return good.any_file(table, rng, (".jsonl", ".json", ".parquet"))


@mutation("label")
def joints(rng: Random) -> Changed:
    """Several labels in a cell, joined by any punctuation, or by a word."""
    table = good.label_sets(rng)
    mark = rng.choice(PUNCTUATION) * rng.choice([1, 1, 1, 2])
    joint = rng.choice([mark, f" {mark} ", f"{mark} ", "\\\\", "+", "|", " and ", "_und_", " ", "\t"])
    return Changed(table, _cells(table.with_cells(joint.join), rng))


@mutation("label")
def values_of_programs(rng: Random) -> Changed:
    """Several labels as Python, pandas, numpy, JSON and Arrow write them."""
    table = good.label_sets(rng)
    number = rng.choice([1, 1.0, True, "1", "yes"])
    written: list[Any] = [
        lambda names: str(tuple(names)),
        lambda names: str({*names}),
        lambda names: f"frozenset({ {*names} })",
        lambda names: str(dict.fromkeys(names, number)),
        lambda names: dict.fromkeys(good.NAMES, 0) | dict.fromkeys(names, 1),
        lambda names: {name: name in names for name in good.NAMES},
        lambda names: f"array({names}, dtype=object)",
        lambda names: f"({', '.join(names)})",
        lambda names: ", ".join(map(repr, names)),
        list,
    ]
    return Changed(table, _cells(table.with_cells(rng.choice(written)), rng))


@mutation("0 and 1|fraction")
def numbers_in_lists(rng: Random) -> Changed:
    """A number for each label in place of names."""
    table = good.label_sets(rng)
    one = rng.choice([1, 1.0, 0.5, True])
    return Changed(
        table, _cells(table.with_cells(lambda names: [one * (name in names) for name in good.NAMES]), rng)
    )


@mutation("are separate classes|not printed")
def lookalikes(rng: Random) -> Changed:
    """Some labels of a class are written otherwise, mostly invisibly."""
    table = good.classes(rng)
    name = rng.choice(good.NAMES[:3])
    place = rng.randint(1, len(name) - 1)
    other = rng.choice(
        [
            name[:place] + rng.choice(INVISIBLE) + name[place:],
            name + rng.choice([*INVISIBLE, *filter(str.isprintable, PUNCTUATION)]),
            name.upper(),
            name.replace("a", "\u0430"),
            name.replace("e", "\u0435").replace("o", "\u03bf"),
            f"\u201c{name}\u201d",
            "".join(chr(ord(letter) + 0xFEE0) for letter in name),
        ]
    )
    places = [i for i, (_, label) in enumerate(table.rows) if label == name]
    some = rng.sample(places, rng.randint(1, len(places) - 1))
    cells = [other if i in some else label for i, (_, label) in enumerate(table.rows)]
    return Changed(table, _cells(replace(table, cells=cells), rng))


@mutation("float32|finite")
def magnitudes(rng: Random) -> Changed:
    """Scores that float32 cannot hold, or not to a step that tells them apart."""
    numbers = [rng.uniform(0, 5) for _ in range(20)]
    table = Table([(f"text {i}", repr(score)) for i, score in enumerate(numbers)], {"type": "regression"})
    wrong = rng.choice([1, -1]) * 10.0 ** rng.choice([rng.randint(19, 300), -rng.randint(38, 300)])
    cells = [*numbers[:-1], wrong]
    if rng.random() < 0.5:
        offset = 10.0 ** rng.randint(8, 15)
        cells = [number + offset for number in numbers]
    return Changed(table, _cells(replace(table, cells=cells), rng))


@mutation("column|quote|backslash|separated")
def quoting(rng: Random) -> Changed:
    """As `csv`, pandas, spreadsheets and databases write cells, in tables with commas and tabs."""
    marks = rng.sample(['"', "'", ",", ";", "\\", ', "so", ', '"no" ', "\n", " it's"], rng.randint(0, 4))
    table = good.classes(rng).with_texts(lambda text: _with(text, rng.choice(["", *marks]), rng))
    delimiter, ending = rng.choice([(",", ".csv"), (";", ".csv"), ("\t", ".tsv"), ("\t", ".csv")])
    if (delimiter, ending) not in ((",", ".csv"), ("\t", ".tsv")):
        table.keys["delimiter"] = delimiter
    doubled = rng.random() < 0.6
    dialect = {
        "delimiter": delimiter,
        "quotechar": rng.choice('"""\''),
        "quoting": rng.choice([csv.QUOTE_MINIMAL, csv.QUOTE_ALL, csv.QUOTE_NONNUMERIC]),
        "doublequote": doubled,
        "escapechar": None if doubled else "\\",
    }
    if not doubled and rng.random() < 0.3:
        dialect["quoting"] = csv.QUOTE_NONE
    data = good.as_csv(table.frame, **dialect)
    return Changed(table, {f"t{ending}": data})


def _with(text: str, mark: str, rng: Random) -> str:
    """A text with a mark between two words, or at an end."""
    words = text.split(" ")
    words.insert(rng.randint(0, len(words)), mark)
    return " ".join(filter(None, words))


# --- columns and cells


@mutation("no column")
def headers(rng: Random) -> Changed:
    """Names with white space around them, or with characters that are not seen."""
    table = good.classes(rng)
    marks = rng.sample([*SPACES, *INVISIBLE], 2)
    named = [
        rng.choice([f"{mark}{name}", f"{name}{mark}"]) for name, mark in zip(table.frame, marks, strict=True)
    ]
    frame = table.frame.set_axis(named, axis="columns")
    ending = rng.choice([*good.FORMS])
    if ending in (".csv", ".tsv") and {*marks} & {"\t", "\r", "\n"}:
        return headers(rng)
    return Changed(table, {f"t{ending}": good.FORMS[ending](frame)})


@mutation("no label|null|nothing|missing|no tag|empty")
def nulls(rng: Random) -> Changed:
    """In labels, in lists, in columns that are not used, and everywhere in these."""
    table = rng.choice([good.classes, good.label_sets, good.tagged])(rng)
    frame = table.frame
    frame["more"] = [None if rng.random() < 0.5 else {"a": rng.choice([None, 1])} for _ in table.rows]
    frame["none"] = [[None, {"b": None}]] * len(frame)
    if rng.random() < 0.5:
        row = rng.randrange(len(frame))
        cell = frame["label"][row]
        frame.at[row, "label"] = [*cell, None] if isinstance(cell, list) else None
    ending = rng.choice([".jsonl", ".json", ".parquet"])
    return Changed(table, {f"t{ending}": good.FORMS[ending](frame)})


@mutation("white space|expected text|columns")
def words_of_white_space(rng: Random) -> Changed:
    table = good.tagged(rng, 40)
    row = rng.randrange(len(table.rows))
    words = table.rows[row][0].split(" ")
    words[rng.randrange(len(words))] = rng.choice(SPACES)
    rows = [*table.rows]
    if rng.random() < 0.5:
        table.keys |= good.COLUMNS
        lines = good.columns(table)["t.conll"].split("\n\n")
        lines[row] = "\n".join(f"{word}\t{tag}" for word, tag in zip(words, rows[row][1], strict=True))
        return Changed(table, {"t.conll": "\n\n".join(lines)})
    frame = table.frame.astype(object)
    frame["text"] = [words if i == row else text.split(" ") for i, (text, _) in enumerate(rows)]
    return Changed(table, {"t.jsonl": good.as_lines(frame)})


@mutation("begin with #")
def number_signs(rng: Random) -> Changed:
    """Words that are the sign of comments, with and without comments."""
    table = good.tagged(rng)
    table.keys |= good.COLUMNS
    rows = [(_with(text, "#", rng), [rng.choice(good.NAMES), *tags]) for text, tags in table.rows]
    table = Table(rows, table.keys)
    comment = rng.choice(["", "", "# id 5 of x\n", "# text\n", "#begin document (x)\n", "# a\n# b c d\n"])
    sentences = good.columns(table, rng.choice("\t ")).popitem()[1].split("\n\n")
    return Changed(table, {"t.conll": "".join(f"{comment}{sentence.strip()}\n\n" for sentence in sentences)})


@mutation("whole number|expected start, end")
def fractions_of_places(rng: Random) -> Changed:
    """Spans whose ends are not whole numbers, or written as text."""
    table = good.tagged(rng)
    table.keys["type"] = "spans"
    rows = [(text.split(" "), [0, rng.randrange(1, 1 + text.count(" ")), rng.choice(good.NAMES)])
            for text, _ in table.rows]  # fmt: skip
    changed = rng.choice(
        [str, float, lambda n: n + 0.5, lambda n: f"{n}.5", lambda n: f"{n}.0", lambda n: None]
    )
    cells = [[{"start": start, "end": changed(end + 1), "type": name}] for _, (start, end, name) in rows]
    table = Table([(" ".join(words), [span]) for words, span in rows], table.keys, cells)
    return Changed(table, good.any_file(table, rng, (".jsonl", ".parquet")))


# --- folders


@mutation("left out|unlike|end in|not the texts")
def files_beside_texts(rng: Random) -> Changed:
    """Notes, licences and annotations in folders of classes."""
    table = good.classes(rng)
    form = rng.choice(["{}.txt", "{}", "doc{}.txt", "x_{}.text"])
    files = good.class_folders(table, rng, form)
    names = [
        "README",
        "readme.md",
        "LICENSE.txt",
        "notes.txt",
        "notes",
        "a.ann",
        "todo.html",
        "index.json",
        "x.png",
    ]
    for name in rng.sample(names, rng.randint(1, 3)):
        files[f"{rng.choice(good.NAMES[:3])}/{name}"] = "made by hand"
    if rng.random() < 0.3:
        files |= {f"{name.rpartition('.')[0] or name}.ann": "T1" for name in files}
    return Changed(table, files)


@mutation("unlabelled")
def a_folder_without_labels(rng: Random) -> Changed:
    """Most texts are in a folder of those without a label, as unsup in aclImdb."""
    table = good.classes(rng, 20, good.NAMES[:2])
    files = good.class_folders(table, rng)
    name = rng.choice(["unsup", "unlabeled", "rest", "0"])
    return Changed(table, files | {f"{name}/{i}.txt": f"{good.text(rng)} {i}" for i in range(30, 70)})


@mutation("pointer")
def pointers(rng: Random) -> Changed:
    """Some or all files are pointers of Git LFS or git-annex."""
    table = good.classes(rng)
    files = rng.choice([good.any_file, good.class_folders, good.class_files])(table, rng)
    for name in rng.sample(sorted(files), rng.randint(1, len(files))):
        digest = f"{rng.randrange(1 << 64):064x}"
        lfs = f"version https://git-lfs.github.com/spec/v1\noid sha256:{digest}\nsize 12345\n"
        files[name] = rng.choice([lfs, f"/annex/objects/SHA256E-s45--{digest}.txt\n"])
    return Changed(table, files)


SPLITS = ["test", "valid", "dev", "val", "validation", "testing"]


def _used(names: list[str]) -> list[str]:
    """The splits to train and validate on."""
    usual = [name for name in names if name.startswith(("val", "dev"))]
    return ["train"] * ("train" in names) + (["validation"] if "validation" in usual else usual)


@mutation("no column 'label'|no split|split|one of these|not the texts")
def folders_of_splits(rng: Random) -> Changed:
    """Texts in folders named as splits, with and without folders of classes in them."""
    table = good.classes(rng, 61)
    rng.shuffle(table.rows)
    names = [*rng.choice([("train",), ()]), *rng.sample(SPLITS, rng.randint(1, 2))]
    classes = rng.random() < 0.5
    held = {name: [*range(61)][i :: len(names)] for i, name in enumerate(names)}
    files: Files = {}
    for name, rows in held.items():
        for row in rows:
            text, label = table.rows[row]
            files[f"{name}/{label}/{row}.txt" if classes else f"{name}/{row}.txt"] = text
    kept = [row for name in _used(names) for row in held[name]]
    return Changed(Table([table.rows[row] for row in sorted(kept)]), files)


@mutation("no split|one of these|rows under|held out")
def lists_of_a_document(rng: Random) -> Changed:
    """Rows of a JSON document under names, such as those of splits."""
    table = good.classes(rng, 61)
    rng.shuffle(table.rows)
    names = rng.sample(["train", "test", "validation", "dev", "rows", "examples"], rng.randint(1, 3))
    held = {name: [*range(61)][i :: len(names)] for i, name in enumerate(names)}
    rows = table.frame.to_dict("records")
    document = {name: [rows[row] for row in held[name]] for name in names}
    if rng.random() < 0.3:
        document = {"version": "1", **document}
    used = _used(names) if len(names) > 1 else names
    kept = sorted(row for name in used for row in held[name])
    data = json.dumps(document, indent=rng.choice([None, 1]))
    return Changed(Table([table.rows[row] for row in kept]), {f"t{rng.choice(['.json', '.jsonl'])}": data})
