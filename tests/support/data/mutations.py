"""Changes of good tables as those of users are changed: a function of a few lines for each, by name.

A function writes a table at random. What is read must equal the table; otherwise planning refuses the files,
or tells of them, in words that `mutation` expects. A report of a user is a new function, or a new item to
draw.
"""

import bz2
import gzip
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from random import Random

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
