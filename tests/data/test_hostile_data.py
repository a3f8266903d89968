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
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headspec.config.sections.task import Task
from headspec.data import prepare
from headspec.data.sources import treebank
from headspec.errors import DataError
from support.data.hub import offline

N = 20
TEXTS = [f"text {i}" for i in range(N)]
LABELS = ["a", "b"] * (N // 2)


def prepared(source: Path | str, **settings: Any) -> prepare.Prepared | str:
    """The examples of a table, or the error that refuses it."""
    try:
        return prepare.prepare("t", Task(source=str(source), **settings), seed=0)
    except DataError as error:
        return str(error)


def parquet(folder: Path, **columns: Any) -> Path:
    table = pa.table({"text": TEXTS, "label": LABELS} | columns)
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def not_utf8(values: list[str]) -> pa.Array:
    sizes = pa.array(values).buffers()[:2]
    return pa.Array.from_buffers(pa.string(), len(values), [*sizes, pa.py_buffer(b"\xff" * 9 * len(values))])


TAKEN = {
    "categories": {
        "text": pa.array(TEXTS).dictionary_encode(),
        "label": pa.array(LABELS).dictionary_encode(),
    },
    "numbers in categories": {"label": pa.array([1, 2] * 10).dictionary_encode()},
    "half precision": {"label": pa.array(np.array([1, 2] * 10, np.float16))},
    "dates": {"label": pa.array([0, 1] * 10, pa.date32())},
    "views": {"text": pa.array(TEXTS, pa.string_view())},
    "NUL": {"text": [f"{text}\0" for text in TEXTS], "label": ["a\0", "b"] * 10},
    "words of other types": {"label": ["nan", "2020-01-01"] * 10},
}


@pytest.mark.parametrize("case", TAKEN)
def test_columns_that_are_taken(tmp_path, case):
    found = prepared(parquet(tmp_path, **TAKEN[case]))
    assert not isinstance(found, str), found
    assert len(found.train) == 18 and len(found.classes or ()) == 2


REFUSED = {
    "lists as labels": ({"label": [[x] for x in LABELS]}, {}, "tasks.t.label: row 1 of t.parquet has array("),
    "mappings as labels": ({"label": [{"x": x} for x in LABELS]}, {}, "row 1 of t.parquet has {'x': 'a'} in"),
    "bytes as labels": ({"label": [x.encode() for x in LABELS]}, {}, "row 1 of t.parquet has b'a' in column"),
    "lists as scores": ({"label": [[1.0]] * N}, {"type": "regression"}, "expected text or a number"),
    "lists to filter": ({"f": [[1]] * N}, {"filter": {"f": 1}}, "tasks.t.filter.f: row 1 of t.parquet has"),
    "lists as texts": ({"text": [[x] for x in TEXTS]}, {}, "column 'text' of t.parquet holds object values"),
    "text not in UTF-8": ({"text": not_utf8(TEXTS)}, {}, "t.parquet cannot be read as Parquet (Column 0: In"),
    "labels not in UTF-8": ({"label": not_utf8(LABELS)}, {}, "Invalid UTF8 sequence at string index 0"),
    "only padding": ({"text": ["[PAD]"] * N}, {}, "cannot be held out of 1 distinct rows"),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_columns_that_are_refused(tmp_path, case):
    columns, settings, fragment = REFUSED[case]
    found = prepared(parquet(tmp_path, **columns), **settings)
    assert isinstance(found, str) and fragment in found, found


def test_columns_of_the_same_name(tmp_path):
    table = pa.Table.from_arrays(
        [pa.array(TEXTS), pa.array(LABELS), pa.array(LABELS)], ["text", "label", "label"]
    )
    pq.write_table(table, tmp_path / "t.parquet")
    (tmp_path / "t.csv").write_text("text,label,label\n" + "x,a,b\n" * N)
    for name in ("t.parquet", "t.csv"):
        assert (
            prepared(tmp_path / name)
            == f"tasks.t.source: {name} has several columns label; expected one each"
        )


@pytest.mark.parametrize("index", ["text", "label", ["text", "label"], pd.RangeIndex(7, 47, 2)], ids=str)
def test_an_index_of_pandas_is_a_column_as_any_other(tmp_path, index):
    frame = pd.DataFrame({"text": TEXTS, "label": LABELS}).set_index(index)
    frame.to_parquet(tmp_path / "t.parquet")
    assert len(prepared(tmp_path / "t.parquet").train) == 18


def test_rows_are_numbered_from_one_whatever_pandas_stored(tmp_path):
    frame = pd.DataFrame({"text": TEXTS, "label": LABELS}, index=pd.RangeIndex(100, 120))
    frame.loc[103, "label"] = None
    frame.to_parquet(tmp_path / "t.parquet")
    assert "the first is row 4 (" in prepared(tmp_path / "t.parquet")


CODE = type("Code", (), {"__reduce__": lambda self: (os.mkdir, ("trace",))})()
METADATA = [b"{", b"[]", b"5", b'{"index_columns": ["text", "z"], "columns": []}', pickle.dumps(CODE)]


@pytest.mark.parametrize("metadata", METADATA, ids=range(len(METADATA)))
def test_metadata_of_pandas_is_not_read(tmp_path, monkeypatch, metadata):
    monkeypatch.chdir(tmp_path)
    table = pa.table({"text": TEXTS, "label": LABELS}).replace_schema_metadata({b"pandas": metadata})
    pq.write_table(table, "t.parquet")
    assert len(prepared("t.parquet").train) == 18 and not Path("trace").exists()


@pytest.mark.parametrize("name", ["arrow.py_extension_type", "pandas.period", "arrow.json", "unknown"])
def test_extension_types_run_no_code(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    extension = {"ARROW:extension:name": name, b"ARROW:extension:metadata": pickle.dumps(CODE)}
    fields = [pa.field("text", pa.string()), pa.field("label", pa.string(), metadata=extension)]
    pq.write_table(pa.table([TEXTS, LABELS], schema=pa.schema(fields)), "t.parquet")
    prepared("t.parquet")
    assert not Path("trace").exists()


def test_a_loading_script_of_a_data_set_is_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    offline(monkeypatch, tmp_path / "cache")
    script = tmp_path / "some" / "set" / "set.py"
    script.parent.mkdir(parents=True)
    script.write_text("import os\nos.mkdir('trace')\n")
    (script.parent / "set.pkl").write_bytes(pickle.dumps(CODE))
    assert prepared("hub:some/set@1").startswith("tasks.t.source: 'hub:some/set@1' ")
    assert not Path("trace").exists()


LONG = "x" * (1 << 20)
FILES = {
    "long lines": ("csv", "text,label\n" + "".join(f"{LONG}{i},{x}\n" for i, x in enumerate(LABELS)), None),
    "mixed quoting": ("csv", "text,label\n" + "".join(f'"a, ""{i}""",x\nc"{i},y\n' for i in range(20)), None),
    "formulas": ("csv", "text,label\n" + "".join(f"=cmd!A{i},x\n@SUM({i}),y\n" for i in range(20)), None),
    "long header": ("csv", f"text,label,{LONG}\na,b,c\n", "field larger than field limit"),
    "open quote": ("csv", 'text,label\n"a,x\nb,y\n', "cannot be read as CSV"),
    "surrogate": ("csv", b"text,label\na\xed\xa0\x80,x\n", "line 2 of t.csv has the byte 0xED"),
    "surrogate in JSON": ("jsonl", r'{"text": "\ud800", "label": "a"}', "The surrogate pair in string"),
    "deep JSON": ("jsonl", '{"text": "x", "label": ' + "[" * 500 + "]" * 500 + "}", "row 1 of t.jsonl has"),
    "repeated key": ("jsonl", '{"text": "x", "text": "y", "label": "a"}', "was specified twice in row 0"),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files(tmp_path, case):
    ending, content, fragment = FILES[case]
    path = tmp_path / f"t.{ending}"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    found = prepared(path)
    assert (fragment in found) if fragment else not isinstance(found, str), str(found)[:500]


SOURCES = [
    "/dev/zero",
    "~nobody-here/x",
    "x" * 5000,
    "a\0b",
    "package:__main__/x",
    "package:",
    "\udce9",
    "hub:../x",
]


@pytest.mark.parametrize("source", SOURCES, ids=range(len(SOURCES)))
def test_sources_that_are_no_paths(source):
    assert prepared(source).startswith("tasks.t.source: ")


@pytest.mark.parametrize("name", ["loop", "loop/inside", "dangling"])
def test_a_link_to_nothing_is_named(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    Path("loop").symlink_to("loop")
    Path("dangling").symlink_to("gone")
    link = name.partition("/")[0]
    assert prepared(name) == (
        f"tasks.t.source: '{link}' in ./ is a link to itself or to what is not there (in '{name}')"
    )


@pytest.mark.parametrize("name", ["train.parquet", "train.csv.gz", "a/x.txt", "a.txt"])
@pytest.mark.parametrize("kind", ["pipe", "loop"])
def test_a_folder_with_a_pipe_or_a_link_to_itself(tmp_path, name, kind):
    """Reading a pipe would wait for ever."""
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    os.mkfifo(path) if kind == "pipe" else path.symlink_to(path.name)
    assert prepared(tmp_path).startswith(
        f"tasks.t.source: '{path.name}' in {path.parent}/ is neither a file nor"
    )


CELLS = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats() | st.text(max_size=8)
CELLS |= st.sampled_from(["a", "b", "nan", "-1", "1.0", "2020-01-01", " ", "\0", "=1+1", "[PAD]"])
NESTED = CELLS | st.lists(CELLS, max_size=2) | st.binary(max_size=3)
KINDS = {
    "type": ["classification", "regression"],
    "text_b": [None, "more"],
    "filter": [{}, {"more": ["a", 1]}],
}
KINDS |= {"labels": [None, ["a", "b"], {"1": "x", "-1": "y"}]}


@settings(max_examples=6 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.slow
def test_any_table_gives_examples_or_an_error(tmp_path_factory, data):
    folder = tmp_path_factory.getbasetemp() / "any"
    folder.mkdir(exist_ok=True)
    ending = data.draw(st.sampled_from(["parquet", "jsonl", "csv", "tsv"]))
    n = data.draw(st.integers(0, 6))
    pools = data.draw(
        st.lists(st.sampled_from([CELLS, NESTED, st.sampled_from(["a", "b"])]), min_size=3, max_size=3)
    )
    columns = {
        name: data.draw(st.lists(pool, min_size=n, max_size=n))
        for name, pool in zip(["text", "label", "more"], pools, strict=True)
    }
    path = folder / f"t.{ending}"
    if ending == "parquet":
        try:
            pq.write_table(pa.table(columns), path)
        except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
            return  # Arrow has no type for such a column
    else:
        rows = [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]
        separator = {"csv": ",", "tsv": "\t"}.get(ending, "")
        lines = [separator.join(columns)] if separator else []
        lines += [
            separator.join(map(str, row.values())) if separator else json.dumps(row, default=str)
            for row in rows
        ]
        path.write_bytes("\n".join(lines).encode(errors="surrogatepass"))
    found = prepared(path, **{key: data.draw(st.sampled_from(values)) for key, values in KINDS.items()})
    if isinstance(found, str):
        assert found.startswith("tasks.t")
    else:
        assert all(isinstance(text, str) for text in found.train["text_a"]) and len(found.train)


@settings(max_examples=3 * settings().max_examples, suppress_health_check=list(HealthCheck))
@given(st.data())
@pytest.mark.slow
def test_any_bytes_are_no_table(tmp_path_factory, data):
    """A good file with some bytes changed: a table, or an error."""
    folder = tmp_path_factory.getbasetemp() / "bytes"
    folder.mkdir(exist_ok=True)
    content = bytearray(parquet(folder).read_bytes())
    for place, byte in data.draw(
        st.lists(st.tuples(st.integers(0, len(content) - 1), st.integers(0, 255)), max_size=9)
    ):
        content[place] = byte
    (folder / "t.parquet").write_bytes(content)
    prepared(folder / "t.parquet")


LINES = st.tuples(
    st.sampled_from(["1", "2", "1-2", "1.1", "x", ""]), st.sampled_from(["word", "", "_", "\0"]),
    st.sampled_from(["0", "1", "2", "_", "-1", "²", "٣", "9" * 5000]), st.sampled_from(["root", "_", ""]),
)  # fmt: skip
SETTINGS = {"subset": None, "split": "train", "words": "words", "head": "head", "relation": "relation"}


def parsed(path: Path) -> None:
    try:
        treebank.read_treebank(SimpleNamespace(source=str(path), **SETTINGS))
    except DataError as error:
        assert str(error).startswith("atlas.treebank.")


@pytest.mark.slow
@settings(max_examples=3 * settings().max_examples)
@given(st.lists(LINES | st.just(("# sent_id",)) | st.just(()), max_size=5))
def test_any_treebank_gives_trees_or_an_error(tmp_path_factory, lines):
    path = tmp_path_factory.getbasetemp() / "any.conllu"
    columns = [
        ("\t".join([*row[:2], *"____", *row[2:], "_", "_"]) if len(row) == 4 else "".join(row))
        for row in lines
    ]
    good = "1\tword\t_\t_\t_\t_\t0\troot\t_\t_\n\n"
    path.write_text("\n".join(columns) + "\n\n" + good * treebank.FEWEST)
    parsed(path)


@pytest.mark.slow
@settings(max_examples=2 * settings().max_examples)
@given(st.lists(st.lists(NESTED, max_size=2) | CELLS, min_size=3, max_size=3))
def test_any_table_of_trees_gives_trees_or_an_error(tmp_path_factory, cells):
    path = tmp_path_factory.getbasetemp() / "trees.parquet"
    good = {"words": [["word"]], "head": [["0"]], "relation": [["root"]]}
    try:
        columns = {
            key: rows * treebank.FEWEST + [cell]
            for (key, rows), cell in zip(good.items(), cells, strict=True)
        }
        pq.write_table(pa.table(columns), path)
    except (pa.ArrowException, TypeError, OverflowError, UnicodeError):
        return
    parsed(path)


def test_words_that_are_no_text(tmp_path):
    columns = {"words": [[1]] * 50, "head": [["0"]] * 50, "relation": [["root"]] * 50}
    pq.write_table(pa.table(columns), tmp_path / "t.parquet")
    with pytest.raises(DataError, match=r"sentence 1 \(row 1\): word 1 \(1\) is not text"):
        treebank.read_treebank(SimpleNamespace(source=str(tmp_path / "t.parquet"), **SETTINGS))
