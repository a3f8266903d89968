"""Changes of good tables as those of users are changed: a function of a few lines for each, by name.

A function writes a table at random. What is read must equal the table; otherwise planning refuses the files,
or tells of them, in words that `mutation` expects. A report of a user is a new function, or a new item to
draw.
"""

import bz2
import gzip
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


@mutation("are classes of their own|not printed")
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
