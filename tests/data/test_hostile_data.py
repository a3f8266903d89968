"""Data that nobody would write: each table gives examples or a DataError, and runs no code."""

import json
import os
import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headspec.config.sections.task import Task
from headspec.data import prepare
from headspec.data.sources import treebank
from headspec.errors import DataError
from support.data.sources import conllu, parquet

N = 20
TEXTS = [f"text {i}" for i in range(N)]
LABELS = ["a", "b"] * (N // 2)
COLUMNS = {"text": TEXTS, "label": LABELS}


def prepared(source: Path | str, **settings: Any) -> Any:
    """The examples of a table, or the message that refuses it."""
    try:
        return prepare.prepare("t", Task(source=str(source), **settings), seed=0)
    except DataError as error:
        return str(error)


LONG = "x" * (1 << 20)
#: columns of a Parquet table that differ from `COLUMNS`, or lines of CSV
TAKEN: dict[str, Any] = {
    "categories": {name: pa.array(values).dictionary_encode() for name, values in COLUMNS.items()},
    "numbers in categories": {"label": pa.array([1, 2] * 10).dictionary_encode()},
    "half precision": {"label": pa.array(np.array([1, 2] * 10, np.float16))},
    "dates": {"label": pa.array([0, 1] * 10, pa.date32())},
    "views": {"text": pa.array(TEXTS, pa.string_view())},
    "NUL": {"text": [f"{text}\0" for text in TEXTS], "label": ["a\0", "b"] * 10},
    "words of other types": {"label": ["nan", "2020-01-01"] * 10},
    "long lines": [f"{LONG}{i},{label}" for i, label in enumerate(LABELS)],
    "mixed quoting": [f'"a, ""{i}""",x\nc"{i},y' for i in range(10)],
    "formulas": [f"=cmd!A{i},x\n@SUM({i}),y" for i in range(10)],
}


@pytest.mark.parametrize("case", TAKEN)
def test_unusual_cells_are_taken(here, case):
    if isinstance(TAKEN[case], list):
        (source := Path("t.csv")).write_text("\n".join(["text,label", *TAKEN[case]]))
    else:
        (source := Path("t.parquet")).write_bytes(parquet(**COLUMNS | TAKEN[case]))
    found = prepared(source)
    assert len(found.train) == 18 and len(found.classes) == 2, found


@pytest.mark.parametrize("index", ["text", "label", ["text", "label"], pd.RangeIndex(100, 120)], ids=str)
def test_an_index_of_pandas_is_a_column_as_any_other_and_rows_are_numbered_from_one(here, index):
    frame = pd.DataFrame(COLUMNS)
    frame.set_index(index).to_parquet("t.parquet")
    assert len(prepared("t.parquet").train) == 18
    frame.loc[3, "label"] = None
    frame.set_index(index).to_parquet("t.parquet")
    assert "the first is row 4 (" in prepared("t.parquet")


# --- code


CODE = type("Code", (), {"__reduce__": lambda self: (os.mkdir, ("trace",))})()
METADATA = [b"{", b"[]", b"5", b'{"index_columns": ["text", "z"], "columns": []}', pickle.dumps(CODE)]


@pytest.mark.parametrize("metadata", METADATA, ids=range(len(METADATA)))
def test_metadata_of_pandas_is_not_read(here, metadata):
    table = pa.table(COLUMNS).replace_schema_metadata({b"pandas": metadata})
    Path("t.parquet").write_bytes(parquet(table))
    assert len(prepared("t.parquet").train) == 18 and not Path("trace").exists()


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period", "arrow.json", "unknown"])
def test_extension_types_run_no_code(here, name):
    extension = {"ARROW:extension:name": name, b"ARROW:extension:metadata": pickle.dumps(CODE)}
    fields = [pa.field("text", pa.string()), pa.field("label", pa.string(), metadata=extension)]
    Path("t.parquet").write_bytes(parquet(pa.table([TEXTS, LABELS], schema=pa.schema(fields))))
    prepared("t.parquet")
    assert not Path("trace").exists()


# --- paths


SOURCES = ["/dev/zero", "~nobody-here/x", "x" * 5000, "a\0b", "package:__main__/x", "package:", "\udce9"]


@pytest.mark.parametrize("source", [*SOURCES, "hub:../x"], ids=range(len(SOURCES) + 1))
def test_sources_that_are_no_paths_are_refused(source):
    assert prepared(source).startswith("tasks.t.source: ")


@pytest.mark.parametrize("name", ["loop", "loop/inside", "dangling"])
def test_a_link_to_nothing_is_named(here, name):
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("gone")
    said = f"'{Path(name).parts[0]}' in ./ is a link to itself or to what is not there (in '{name}')"
    assert prepared(name) == f"tasks.t.source: {said}"


@pytest.mark.parametrize("name", ["train.parquet", "train.csv.gz", "a/x.txt", "a.txt"])
@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to(path.name)], ids=["pipe", "loop"])
def test_a_pipe_or_a_link_to_itself_in_a_folder_is_named(tmp_path, name, make):
    """Reading a pipe would block forever."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    make(path)
    said = f"tasks.t.source: '{path.name}' in {path.parent}/ is neither a file nor"
    assert prepared(tmp_path).startswith(said)


# --- anything


CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8)
CELLS |= st.sampled_from(["a", "b", "nan", "-1", "1.0", "2020-01-01", " ", "\0", "=1+1", "[PAD]"])
NESTED = CELLS | st.lists(CELLS, max_size=2) | st.binary(max_size=3)
POOLS = st.sampled_from([CELLS, NESTED, st.sampled_from(["a", "b"])])
SETTINGS = st.fixed_dictionaries(
    {
        "type": st.sampled_from(["classification", "regression"]),
        "text_b": st.sampled_from([None, "more"]),
        "filter": st.sampled_from([{}, {"more": ["a", 1]}]),
        "labels": st.sampled_from([None, ["a", "b"], {"1": "x", "-1": "y"}]),
    }
)


def parquet_if_possible(path: Path, columns: dict[str, list]) -> bool:
    """Write a table unless Arrow has no type for a column."""
    try:
        path.write_bytes(parquet(**columns))
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
        return False
    return True


@settings(max_examples=6 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.thorough
def test_any_table_gives_examples_or_an_error(tmp_path_factory, data):
    ending = data.draw(st.sampled_from(["parquet", "jsonl", "csv", "tsv"]))
    path = tmp_path_factory.getbasetemp() / f"any.{ending}"
    n = data.draw(st.integers(0, 6))
    pools = {name: data.draw(POOLS) for name in ("text", "label", "more")}
    columns = {name: data.draw(st.lists(pool, min_size=n, max_size=n)) for name, pool in pools.items()}
    if ending == "parquet":
        if not parquet_if_possible(path, columns):
            return
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        if ending == "jsonl":
            lines = [json.dumps(row, default=str) for row in rows]
        else:
            separator = {"csv": ",", "tsv": "\t"}[ending]
            lines = [separator.join(map(str, row)) for row in [columns, *(row.values() for row in rows)]]
        path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    found = prepared(path, **data.draw(SETTINGS))
    if isinstance(found, str):
        assert found.startswith("tasks.t")
    else:
        assert all(isinstance(text, str) for text in found.train["text_a"]) and len(found.train)


@settings(max_examples=3 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(st.lists(st.tuples(st.integers(0, 2**31), st.integers(0, 255)), max_size=9))
@pytest.mark.thorough
def test_a_good_file_with_some_bytes_changed_gives_a_table_or_an_error(tmp_path_factory, changes):
    path = tmp_path_factory.getbasetemp() / "bytes.parquet"
    content = bytearray(parquet(**COLUMNS))
    for place, byte in changes:
        content[place % len(content)] = byte
    path.write_bytes(content)
    prepared(path)


def trees(path: Path) -> None:
    columns = {"words": "words", "head": "head", "relation": "relation"}
    try:
        treebank.read_treebank(SimpleNamespace(source=str(path), subset=None, split="train", **columns))
    except DataError as error:
        assert str(error).startswith("atlas.treebank.")


LINES = st.tuples(
    st.sampled_from(["1", "2", "1-2", "1.1", "x", ""]), st.sampled_from(["word", "", "_", "\0"]),
    st.sampled_from(["0", "1", "2", "_", "-1", "²", "٣", "9" * 5000]), st.sampled_from(["root", "_", ""]),
)  # fmt: skip


@pytest.mark.thorough
@settings(max_examples=3 * settings().max_examples)
@given(st.lists(LINES | st.sampled_from(["# sent_id", ""]), max_size=5))
def test_any_treebank_gives_trees_or_an_error(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "any.conllu"
    written = [
        line if isinstance(line, str) else "\t".join([*line[:2], *"____", *line[2:], "_", "_"])
        for line in lines
    ]
    path.write_text("\n".join(written) + "\n\n" + conllu(*["word"] * treebank.FEWEST))
    trees(path)


@pytest.mark.thorough
@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.lists(NESTED, max_size=2) | CELLS, min_size=3, max_size=3))
def test_any_table_of_trees_gives_trees_or_an_error(tmp_path_factory, cells):
    path = tmp_path_factory.getbasetemp() / "trees.parquet"
    good = {"words": ["word"], "head": ["0"], "relation": ["root"]}
    columns = {
        name: [row] * treebank.FEWEST + [cell] for (name, row), cell in zip(good.items(), cells, strict=True)
    }
    if parquet_if_possible(path, columns):
        trees(path)
