"""Tables: fixed schema, sorted rows, equal bytes, atomic writes; heads, and several numbers of an example."""

import ast
import os
import subprocess
import sys
from importlib import metadata

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from headspec import per_example, tables
from headspec.config.quantizations import QUANTIZATIONS
from headspec.errors import DataError
from headspec.heads.pruning import EVALUATION
from headspec.per_example import array, columns, labels_and_predictions
from headspec.provenance import files
from headspec.tables import FLOAT, INT, TEXT, Schema
from support.paths import ROOT
from support.schemas import SCHEMAS

FOOTER = {"study": "s", "classes": ["ä", "b"], "truncated": 3}


@pytest.fixture
def path(tmp_path):
    return tmp_path / "new" / "t.parquet"


def importance() -> pd.DataFrame:
    rows = [
        (task, fold, 0, head, 0.1 * head, 5, 1.0) for task in "ab" for fold in range(2) for head in range(3)
    ]
    return pd.DataFrame(rows, columns=["task", "fold", "layer", "head", "importance", "n", "fisher"])


@settings(
    suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=settings().max_examples // 5
)
@given(st.permutations(range(12)))
def test_rows_and_columns_in_any_order_give_the_same_bytes(path, order):
    frame = importance()
    tables.write(path, SCHEMAS["importance"], frame, FOOTER)
    assert tables.footer(path) == FOOTER
    assert set(pq.read_table(path)["attention"].to_pylist()) == {"self"}
    pd.testing.assert_frame_equal(tables.read(path), frame, check_dtype=False)
    other = frame.iloc[order].assign(extra=1)[["extra", *reversed(frame.columns)]]
    tables.write(path.with_name("second.parquet"), SCHEMAS["importance"], other, FOOTER)
    assert path.read_bytes() == path.with_name("second.parquet").read_bytes()


def test_empty_tables_have_their_schemas(path):
    for name, schema in SCHEMAS.items():
        tables.write(path, schema, pd.DataFrame(columns=list(schema.columns)), {})
        written = pq.read_schema(path)
        assert dict(zip(written.names, written.types, strict=True)) == schema.stored.columns, name
        assert 0 < schema.keys <= len(schema.columns), name


def test_a_table_of_an_earlier_version_has_no_probabilities(path):
    earlier = {name: kind for name, kind in SCHEMAS["predictions"].columns.items() if name != "probabilities"}
    rows = [("none", 0.0, "a", 0, 1.0, 0.0)]
    frame = pd.DataFrame(rows, columns=list(earlier)).astype({"example": "int32"})
    tables.write(path, Schema(earlier, keys=4), frame, FOOTER)
    for wanted in (False, True):
        assert tables.read(path, wanted).equals(frame)


def test_a_missing_column_is_an_error(path):
    with pytest.raises(KeyError, match="fold"):
        tables.write(path, SCHEMAS["importance"], importance().drop(columns="fold"), {})
    assert not path.parent.exists()


def test_an_error_while_writing_leaves_only_the_old_file(tmp_path):
    """Files of dead writers are removed, those of living ones kept."""
    gone = subprocess.Popen(["true"])
    gone.wait()
    for writer in (gone.pid, os.getppid()):
        (tmp_path / f".t.{writer}.tmp").touch()
    with files.atomic(tmp_path / "t") as temporary:
        temporary.write_text("old")
        assert not (tmp_path / "t").exists()
    with pytest.raises(ZeroDivisionError), files.atomic(tmp_path / "t") as temporary:
        temporary.write_text("ne")
        raise ZeroDivisionError
    assert {p.name for p in tmp_path.iterdir()} == {"t", f".t.{os.getppid()}.tmp"}
    assert (tmp_path / "t").read_text() == "old"


#: imported packages that read, write, show or compare what others compute
OTHERS = {
    "PyYAML", "accelerate", "confusable-homoglyphs", "filelock", "huggingface_hub", "matplotlib", "onnx-ir",
    "onnxruntime", "platformdirs", "pydantic", "pydantic_core", "rich", "safetensors", "snakemake",
    "threadpoolctl", "typer",
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
    computing = {each for name in imported for each in packages[name] if not each.endswith("-stubs")}
    by_name = {each.package for each in QUANTIZATIONS.values()}
    assert computing | by_name == {*tables.COMPUTING} | OTHERS
    assert tables.versions().items() >= {"peft": metadata.version("peft")}.items()


# --- heads have a kind of attention and a layer in tables, and a row in arrays

HEADS = Schema({"task": TEXT, "layer": INT, "head": INT, "value": FLOAT}, keys=3)
OF_MODELS = Schema({"model": TEXT} | HEADS.columns, keys=4)
KINDS = {"encoder": 3, "decoder": 2, "cross": 2}


def heads(rows: int) -> pd.DataFrame:
    layer, head = (index.ravel() for index in np.indices((rows, 2)))
    frame = pd.DataFrame({"task": "a", "layer": layer, "head": head, "value": layer + head / 10})
    return frame.astype({"layer": "int32", "head": "int32"})


def test_a_table_says_kind_and_layer_and_gives_the_rows_back(path):
    frame = heads(7)
    tables.write(path, HEADS, frame.sample(frac=1, random_state=0), {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas()
    assert list(stored) == ["task", "attention", "layer", "head", "value"]
    assert stored["attention"].tolist() == ["encoder"] * 6 + ["decoder"] * 4 + ["cross"] * 4
    assert stored["layer"].tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 0, 0, 1, 1]
    pd.testing.assert_frame_equal(tables.read(path), frame)


def test_models_of_a_table_have_their_own_kinds(path):
    """Most have self-attention alone."""
    frame = pd.concat([heads(7).assign(model="m"), heads(4).assign(model="n")])[list(OF_MODELS.columns)]
    tables.write(path, OF_MODELS, frame, {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas().query("model == 'n'")
    assert stored["layer"].max() == 3 and {*stored["attention"]} == {"self"}
    pd.testing.assert_frame_equal(tables.read(path), frame.reset_index(drop=True))


def test_rows_of_no_head_have_no_attention(path):
    frame = heads(7).astype({"layer": "Int32", "head": "Int32"})
    frame.loc[0, ["layer", "head"]] = None
    tables.write(path, HEADS, frame, {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas()
    assert stored["attention"].isna().tolist() == [True] + 13 * [False]
    assert tables.read(path)["layer"].isna().sum() == 1 and tables.read(path)["layer"].max() == 6


@pytest.mark.parametrize("footer", [{"attention": {"m": KINDS}}, {}])
def test_jobs_take_over_what_their_inputs_say(path, footer):
    plain = path.with_name("plain.parquet")
    tables.write(path, HEADS, heads(7), footer)
    pd.DataFrame({"x": [1]}).to_parquet(plain)
    assert tables.inherited([str(path), str(plain), "classifiers.json"]) == footer


# --- labels and predictions of several numbers

RNG = np.random.default_rng(0)
#: task: labels and predictions
GIVEN = {
    "a": (np.arange(5.0), RNG.normal(size=5)),
    "b": (RNG.normal(size=(7, 3)), RNG.normal(size=(7, 2))),
    "c": (RNG.normal(size=(4, 2)), RNG.normal(size=(4, 1))),
}
LISTS = [*per_example.LISTS.values()]


def evaluation(tasks: str) -> pd.DataFrame:
    frames = []
    for task in tasks:
        label, prediction = GIVEN[task]
        rows = pd.DataFrame({"task": task, "example": np.arange(len(label))})
        frames.append(rows.assign(**columns("label", label), **columns("prediction", prediction)))
    return pd.concat(frames, ignore_index=True)


@pytest.mark.parametrize("read", ["memory", "table", "pandas", "parts"])
def test_arrays_come_back_from_the_rows_of_a_task(read, path):
    every = evaluation("cab")
    tables.write(path, EVALUATION, every, {})
    if read != "memory":
        every = pd.read_parquet(path) if read == "pandas" else tables.read(path)
    if read == "parts":  # as of tables with several groups of rows
        for name in LISTS:
            whole = pa.array(every[name])
            parts = pa.chunked_array([whole[:7], whole[7:8], whole[8:]])
            every[name] = pd.arrays.ArrowExtensionArray(parts)
    for task, expected in GIVEN.items():
        rows = every["task"] == task
        for found, own in zip(labels_and_predictions(every[rows]), expected, strict=True):
            np.testing.assert_array_equal(found, own)
        order = np.flatnonzero(rows)[::-1]
        np.testing.assert_array_equal(array(every, "prediction", order), expected[1][::-1])
        assert array(every[rows][:0], "prediction").shape == (0,)


def test_lists_never_become_python_objects_and_are_read_without_headspec(path):
    """A frame that has none has no columns of them."""
    tables.write(path, EVALUATION, evaluation("a"), {})
    assert not {*LISTS} & {*tables.read(path)}
    tables.write(path, EVALUATION, evaluation("ab"), {})
    for name in LISTS:
        assert tables.read(path)[name].dtype == pd.ArrowDtype(pa.list_(pa.float64()))
    read = pd.read_parquet(path).query("task == 'b'")
    np.testing.assert_array_equal(read["prediction_values"].str[0], GIVEN["b"][1][:, 0])


def test_values_that_a_task_has_not_for_every_example_are_refused():
    for wrong in (evaluation("bc"), evaluation("ac")):
        with pytest.raises(DataError, match="label_values: got . and . values, expected the same number"):
            array(wrong, "label")
