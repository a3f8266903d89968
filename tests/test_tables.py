"""Tables: fixed schema, sorted rows, equal bytes, atomic writes."""

import ast
import os
import subprocess
import sys
from importlib import metadata

import pandas as pd
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headspec import tables
from headspec.models.tokens.tokenization import TOKENS
from headspec.provenance import files
from support.paths import ROOT
from support.schemas import SCHEMAS

FOOTER = {"study": "s", "classes": ["ä", "b"], "truncated": 3}


def importance(order: list[int]) -> pd.DataFrame:
    rows = [
        (task, fold, 0, head, 0.1 * head, 5, 1.0) for task in "ab" for fold in range(2) for head in range(3)
    ]
    frame = pd.DataFrame(rows, columns=["task", "fold", "layer", "head", "importance", "n", "fisher"])
    return frame.iloc[order]


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 5
)
@given(st.permutations(range(12)))
def test_rows_and_columns_in_any_order_give_the_same_bytes(tmp_path, order):
    frame = importance(list(range(12)))
    tables.write(tmp_path / "first.parquet", SCHEMAS["importance"], frame, FOOTER)
    other = frame.iloc[order].assign(extra=1)[["extra", *reversed(frame.columns)]]
    tables.write(tmp_path / "second.parquet", SCHEMAS["importance"], other, FOOTER)
    assert (tmp_path / "first.parquet").read_bytes() == (tmp_path / "second.parquet").read_bytes()


def test_reading_returns_what_was_written(tmp_path):
    frame = importance(list(range(12)))
    tables.write(tmp_path / "new" / "t.parquet", SCHEMAS["importance"], frame, FOOTER)
    assert tables.footer(tmp_path / "new" / "t.parquet") == FOOTER
    pd.testing.assert_frame_equal(tables.read(tmp_path / "new" / "t.parquet"), frame, check_dtype=False)


def test_lists_and_missing_values(tmp_path):
    frame = pd.DataFrame(
        {
            "example": [1, 0],
            "label": [0.5, 2.0],
            "input_ids": [[5, 6, 7], [8]],
            "token_type_ids": [None, None],
        }
    )
    tables.write(tmp_path / "t.parquet", TOKENS, frame, {})
    stored = tables.read(tmp_path / "t.parquet")
    assert [list(ids) for ids in stored["input_ids"]] == [[8], [5, 6, 7]]
    assert stored["token_type_ids"].isna().all()


def test_empty_tables_have_their_schemas(tmp_path):
    for name, schema in SCHEMAS.items():
        tables.write(tmp_path / "t.parquet", schema, pd.DataFrame(columns=list(schema.columns)), {})
        written = pq.read_schema(tmp_path / "t.parquet")
        assert dict(zip(written.names, written.types, strict=True)) == schema.stored.columns, name
        assert 0 < schema.keys <= len(schema.columns), name


def test_a_table_of_an_earlier_version_has_no_probabilities(tmp_path):
    columns = dict(SCHEMAS["predictions"].columns)
    del columns["probabilities"]
    rows = [("none", 0.0, "a", 0, 1.0, 0.0)]
    frame = pd.DataFrame(rows, columns=list(columns)).astype({"example": "int32"})
    tables.write(tmp_path / "predictions.parquet", tables.Schema(columns, keys=4), frame, FOOTER)
    for wanted in (False, True):
        assert tables.read(tmp_path / "predictions.parquet", wanted).equals(frame)


def test_a_missing_column_is_an_error(tmp_path):
    with pytest.raises(KeyError, match="fold"):
        tables.write(
            tmp_path / "t.parquet", SCHEMAS["importance"], importance([0, 1]).drop(columns="fold"), {}
        )
    assert list(tmp_path.iterdir()) == []


def test_an_error_while_writing_leaves_only_the_old_file(tmp_path):
    with files.atomic(tmp_path / "t") as temporary:
        temporary.write_text("old")
        assert not (tmp_path / "t").exists()
    with pytest.raises(ZeroDivisionError), files.atomic(tmp_path / "t") as temporary:
        temporary.write_text("ne")
        raise ZeroDivisionError
    assert [p.name for p in tmp_path.iterdir()] == ["t"]
    assert (tmp_path / "t").read_text() == "old"


def test_files_of_dead_writers_are_removed_and_of_living_ones_kept(tmp_path):
    gone = subprocess.Popen(["true"])
    gone.wait()
    dead = tmp_path / f".table.parquet.{gone.pid}.tmp"
    living = tmp_path / f".table.parquet.{os.getppid()}.tmp"
    dead.touch()
    living.touch()
    with files.atomic(tmp_path / "table.parquet") as path:
        path.write_text("x")
    assert {p.name for p in tmp_path.iterdir()} == {"table.parquet", living.name}


#: imported packages that read, write, show or compare what others compute
OTHERS = {
    "PyYAML", "accelerate", "filelock", "huggingface_hub", "matplotlib", "onnx-ir", "onnxruntime",
    "pydantic", "pydantic_core", "rich", "safetensors", "snakemake", "threadpoolctl", "typer",
}  # fmt: skip


def test_versions_have_every_package_that_computes():
    packages, imported = metadata.packages_distributions(), set()
    for path in (ROOT / "workflow").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                imported |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                imported.add(node.module.partition(".")[0])
    imported -= {*sys.stdlib_module_names, "headspec"}
    assert {package for name in imported for package in packages[name]} == {*tables.COMPUTING} | OTHERS
    assert tables.versions().items() >= {"peft": metadata.version("peft")}.items()
