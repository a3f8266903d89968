"""Exported models: what onnxruntime computes from the file is what the gated model computes."""

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from headspec.errors import ModelError
from headspec.models.batching import Examples
from headspec.models.export import folder
from headspec.models.multitask import MultiTask
from support.running import studies
from support.tiny import HEADS, NATIVE_SIZES, by_family, examples, multitask

FLOAT = onnx.TensorProto.FLOAT

TASKS = {"a": ["x", "y"], "of two words": None}
TEXTS = {task: examples(20, seed=i) for i, task in enumerate(TASKS)}
LAYERS = 2
KEPT = np.array([[False] * HEADS, [True, False, True, True]])
#: type: its matrices of attention for one head, of which layers may share all
MATRICES = {"bert": LAYERS, "albert": 1}


def model(kind: str, layers: int = LAYERS) -> MultiTask:
    names = ("n_layers", "n_layer") if kind in NATIVE_SIZES else ("num_hidden_layers",)
    return multitask(kind, TASKS, **dict.fromkeys(names, layers))


def export(net: MultiTask, out: Path, texts: dict[str, Examples] = TEXTS) -> float:
    tokenizer = studies.tokenizer().backend_tokenizer
    return folder.export(net, KEPT[-net.gates.layers :], texts, tokenizer, {"run": "here"}, out)


@pytest.mark.thorough
@pytest.mark.parametrize("kind", by_family())
def test_the_file_computes_what_the_gated_model_does(kind, tmp_path):
    """Also on texts in other numbers and longer than those that it was written with."""
    exported, file = model(kind), tmp_path / "out" / "model.onnx"
    whole = sum(p.numel() for p in exported.parameters() if p.dim() == 2)
    assert export(exported, tmp_path / "out") < 1e-5
    net = model(kind)
    net.gates.values = torch.from_numpy(KEPT).float()
    more = {task: examples(n, seed=3, longest=60) for task, n in zip(TASKS, (7, 1), strict=True)}
    assert folder.logit_difference(file, more, folder.onnx_logits(net, more)) < 1e-5
    broken = {task: np.full_like(logits, np.nan) for task, logits in folder.onnx_logits(net, more).items()}
    assert math.isnan(folder.logit_difference(file, more, broken))
    net.gates.values = None
    assert folder.logit_difference(file, more, folder.onnx_logits(net, more)) > 1e-3
    if kind in MATRICES:  # those of kept heads alone; what else layers share is there once
        graph = onnx.load(file).graph
        matrices = [t for t in graph.initializer if len(t.dims) == 2 and t.data_type == FLOAT]
        stored, heads = sum(math.prod(t.dims) for t in matrices), HEADS * MATRICES[kind]
        assert whole - stored == (heads - KEPT.sum()) * 4 * (32 // HEADS) * 32


@pytest.mark.thorough
def test_token_types_are_an_input_where_texts_have_them(tmp_path):
    net, texts = model("bert", 1), examples(20)
    texts.token_types = [(np.arange(len(ids)) % 2).tolist() for ids in texts.ids]
    assert export(net, tmp_path / "out", {"a": texts}) < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [each.name for each in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    assert [each.name for each in session.get_outputs()] == list(TASKS)


@pytest.mark.thorough
def test_a_model_that_computes_something_else_is_not_left(tmp_path, monkeypatch):
    correct = folder.remove_heads
    monkeypatch.setattr(folder, "remove_heads", lambda net, kept: correct(net, ~kept))
    with pytest.raises(ModelError, match="out: not written, because its logits differ by .* at most 1e-04"):
        export(model("bert", 1), tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_nothing_half_written_is_left(tmp_path):
    """Neither of an export that is interrupted, nor of one that was killed before."""
    killed = tmp_path / ".out.tmp"
    killed.mkdir()
    (killed / "model.onnx").touch()
    with pytest.raises(KeyboardInterrupt), folder.complete(tmp_path / "out") as temporary:
        assert not list(temporary.iterdir())
        (temporary / "model.onnx").touch()
        raise KeyboardInterrupt
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(monkeypatch):
    folder.check_onnx_installed()
    monkeypatch.setattr(folder, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(ModelError, match=r"needs onnxscript, not installed; pip install 'headspec\[onnx\]'"):
        folder.check_onnx_installed()
