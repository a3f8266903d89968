"""Good tables, written in every form in which headspec reads them."""

import csv
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from random import Random
from typing import Any

import pandas as pd

from support.data.sources import Files, parquet

WORDS = ["the", "gentle", "kettle", "follows", "garden", "été", "Straße", "北京", "река", "ποταμός"]
#: names of classes, tags and types of spans, none of which is like another
NAMES = ("anger", "calm", "fear", "hope", "joy")


@dataclass
class Table:
    """Texts with labels, and the keys of a task that reads them.

    A label is a name, a list of names, or a name for each word of the text; as a task of that type reads it.
    """

    rows: list[tuple[str, Any]]
    keys: dict[str, Any] = field(default_factory=dict)
    #: cells of the label as they are written, by default the labels
    cells: list[Any] | None = None

    def with_cells(self, change: Callable[[Any], Any]) -> "Table":
        """The same table whose labels are written otherwise."""
        return replace(self, cells=[change(label) for _, label in self.rows])

    def with_texts(self, change: Callable[[str], str]) -> "Table":
        return replace(self, rows=[(change(text), label) for text, label in self.rows])

    @property
    def frame(self) -> pd.DataFrame:
        label = [label for _, label in self.rows] if self.cells is None else self.cells
        texts = [text for text, _ in self.rows]
        return pd.DataFrame({"text": texts, "label": pd.Series(label, dtype=object)})


def classes(rng: Random, n: int = 20, names: Sequence[str] = NAMES[:3]) -> Table:
    """Distinct texts, each with the name of a class."""
    return Table([(f"{text(rng)} {i}", names[i % len(names)]) for i in range(n)])


def label_sets(rng: Random, n: int = 20) -> Table:
    """Distinct texts, each with several names, each of which is some text's only one."""
    sets = [[name] for name in NAMES] + [rng.sample(NAMES, rng.randint(1, 3)) for _ in range(n - len(NAMES))]
    return Table([(f"{text(rng)} {i}", sorted(names)) for i, names in enumerate(sets)], {"type": "labels"})


def tagged(rng: Random, n: int = 12) -> Table:
    """Distinct sentences with a tag for each word."""
    sentences = [[rng.choice(WORDS) for _ in range(rng.randint(2, 5))] + [str(i)] for i in range(n)]
    rows = [(" ".join(words), [rng.choice(NAMES) for _ in words]) for words in sentences]
    return Table(rows, {"type": "tags", "text_a": "text", "label": "label"})


def text(rng: Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(rng.randint(2, 6)))


# --- forms


def as_csv(frame: pd.DataFrame, **dialect: Any) -> str:
    """A table as `csv` writes it."""
    sink = io.StringIO(newline="")
    writer = csv.writer(sink, **{"lineterminator": "\n"} | dialect)
    writer.writerows([list(frame), *frame.itertuples(index=False, name=None)])
    return sink.getvalue()


def as_lines(frame: pd.DataFrame) -> str:
    return "".join(json.dumps(row) + "\n" for row in frame.to_dict("records"))


#: tables of a file, by its ending
FORMS: dict[str, Callable[[pd.DataFrame], str | bytes]] = {
    ".csv": as_csv,
    ".tsv": lambda frame: as_csv(frame, delimiter="\t", quoting=csv.QUOTE_NONE, quotechar=None),
    ".jsonl": as_lines,
    ".json": lambda frame: json.dumps(frame.to_dict("records"), indent=1),
    ".parquet": lambda frame: parquet(**{name: list(frame[name]) for name in frame}),
}


def file(table: Table, ending: str) -> Files:
    return {f"t{ending}": FORMS[ending](table.frame)}


def any_file(table: Table, rng: Random, endings: Sequence[str] = tuple(FORMS)) -> Files:
    return file(table, rng.choice(endings))


def class_folders(table: Table, rng: Random, name: str = "{}.txt") -> Files:
    """A folder for each class with a file for each text."""
    return {f"{label}/{name.format(i)}": text for i, (text, label) in enumerate(table.rows)}


def class_files(table: Table, rng: Random) -> Files:
    """A file for each class with a line for each text."""
    names = sorted({label for _, label in table.rows})
    return {f"{name}.txt": "".join(f"{text}\n" for text, of in table.rows if of == name) for name in names}


def columns(table: Table, between: str = "\t") -> Files:
    """A line for each word with its tag."""
    sentences = [zip(text.split(" "), tags, strict=True) for text, tags in table.rows]
    lines = ("".join(f"{word}{between}{tag}\n" for word, tag in each) for each in sentences)
    return {"t.conll": "\n".join(lines)}


COLUMNS = {"text_a": "1", "label": "2"}
