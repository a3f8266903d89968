"""Labels and predictions of several numbers, in frames, in tables, and as arrays."""

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from headspec import per_example, tables
from headspec.errors import DataError
from headspec.heads.pruning import EVALUATION
from headspec.per_example import array, columns, labels_and_predictions

RNG = np.random.default_rng(0)
#: task: labels and predictions
GIVEN = {
    "a": (np.arange(5.0), RNG.normal(size=5)),
    "b": (RNG.normal(size=(7, 3)), RNG.normal(size=(7, 2))),
    "c": (RNG.normal(size=(4, 2)), RNG.normal(size=(4, 1))),
}


def frame(task: str) -> pd.DataFrame:
    label, prediction = GIVEN[task]
    rows = pd.DataFrame({"task": task, "example": np.arange(len(label))})
    return rows.assign(**columns("label", label), **columns("prediction", prediction))


def stored(tmp_path, given: pd.DataFrame) -> pd.DataFrame:
    tables.write(tmp_path / "evaluation.parquet", EVALUATION, given, {})
    return tables.read(tmp_path / "evaluation.parquet")


@pytest.mark.parametrize("read", ["memory", "table", "pandas", "parts"])
def test_arrays_come_back_from_the_rows_of_a_task(read, tmp_path):
    every = pd.concat([frame(task) for task in "cab"], ignore_index=True)
    if read != "memory":
        every = stored(tmp_path, every)
    if read == "pandas":
        every = pd.read_parquet(tmp_path / "evaluation.parquet")
    if read == "parts":  # as of tables with several groups of rows
        for name in per_example.LISTS.values():
            whole = pa.array(every[name])
            parts = pa.chunked_array([whole[:7], whole[7:8], whole[8:]])
            every[name] = pd.arrays.ArrowExtensionArray(parts)
    for task, given in GIVEN.items():
        rows = every["task"] == task
        for found, expected in zip(labels_and_predictions(every[rows]), given, strict=True):
            np.testing.assert_array_equal(found, expected)
        order = np.flatnonzero(rows)[::-1]
        np.testing.assert_array_equal(array(every, "prediction", order), given[1][::-1])
        assert array(every[rows][:0], "prediction").shape == (0,)


def test_lists_never_become_python_objects(tmp_path):
    """A frame that has none has no columns of them."""
    assert not {*per_example.LISTS.values()} & {*stored(tmp_path, frame("a"))}
    read = stored(tmp_path, pd.concat([frame("a"), frame("b")]))
    for name in per_example.LISTS.values():
        assert read[name].dtype == pd.ArrowDtype(pa.list_(pa.float64()))


def test_values_that_a_task_has_not_for_every_example_are_refused():
    for wrong in (pd.concat([frame("b"), frame("c")]), pd.concat([frame("a"), frame("c")])):
        with pytest.raises(DataError, match="label_values: got . and . values, expected as many"):
            array(wrong, "label")


def test_values_are_read_without_headspec(tmp_path):
    stored(tmp_path, frame("b"))
    read = pd.read_parquet(tmp_path / "evaluation.parquet")
    np.testing.assert_array_equal(read["prediction_values"].str[0], GIVEN["b"][1][:, 0])
