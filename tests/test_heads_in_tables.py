"""Heads have a kind of attention and a layer in tables, and a row in arrays."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.tables import FLOAT, INT, TEXT, Schema

HEADS = Schema({"task": TEXT, "layer": INT, "head": INT, "value": FLOAT}, keys=3)
OF_MODELS = Schema({"model": TEXT} | HEADS.columns, keys=4)
KINDS = {"encoder": 3, "decoder": 2, "cross": 2}


def heads(rows: int) -> pd.DataFrame:
    layer, head = (index.ravel() for index in np.indices((rows, 2)))
    frame = pd.DataFrame({"task": "a", "layer": layer, "head": head, "value": layer + head / 10})
    return frame.astype({"layer": "int32", "head": "int32"})


def test_a_table_says_kind_and_layer_and_gives_the_rows_back(tmp_path):
    path, frame = tmp_path / "a.parquet", heads(7)
    tables.write(path, HEADS, frame.sample(frac=1, random_state=0), {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas()
    assert list(stored) == ["task", "attention", "layer", "head", "value"]
    assert stored["attention"].tolist() == ["encoder"] * 6 + ["decoder"] * 4 + ["cross"] * 4
    assert stored["layer"].tolist() == [0, 0, 1, 1, 2, 2, 0, 0, 1, 1, 0, 0, 1, 1]
    pd.testing.assert_frame_equal(tables.read(path), frame)


def test_other_models_have_self_attention_alone(tmp_path):
    path, frame = tmp_path / "a.parquet", heads(3)
    tables.write(path, HEADS, frame, {})
    stored = pq.read_table(path).to_pandas()
    assert set(stored.pop("attention")) == {"self"}
    pd.testing.assert_frame_equal(stored, frame)
    pd.testing.assert_frame_equal(tables.read(path), frame)


def test_models_of_a_table_have_their_own_kinds(tmp_path):
    path = tmp_path / "a.parquet"
    frame = pd.concat([heads(7).assign(model="m"), heads(4).assign(model="n")])[list(OF_MODELS.columns)]
    tables.write(path, OF_MODELS, frame, {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas()
    assert stored[stored["model"] == "n"]["layer"].max() == 3 and stored["attention"].nunique() == 4
    pd.testing.assert_frame_equal(tables.read(path), frame.reset_index(drop=True))


def test_rows_of_no_head_have_no_attention(tmp_path):
    path, frame = tmp_path / "a.parquet", heads(7).astype({"layer": "Int32", "head": "Int32"})
    frame.loc[0, ["layer", "head"]] = None
    tables.write(path, HEADS, frame, {"attention": {"m": KINDS}})
    stored = pq.read_table(path).to_pandas()
    assert stored["attention"].isna().tolist() == [True] + 13 * [False]
    assert tables.read(path)["layer"].isna().sum() == 1 and tables.read(path)["layer"].max() == 6


@pytest.mark.parametrize("kinds", [{"m": KINDS}, {}])
def test_jobs_take_over_what_their_inputs_say(tmp_path, kinds):
    source, plain = tmp_path / "a.parquet", tmp_path / "plain.parquet"
    tables.write(source, HEADS, heads(7), {"attention": kinds} if kinds else {})
    pd.DataFrame({"x": [1]}).to_parquet(plain)
    inherited = tables.inherited([str(source), str(plain), "classifiers.json"])
    assert inherited == ({"attention": kinds} if kinds else {})
