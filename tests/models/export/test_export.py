"""Exported models: what onnxruntime computes from the file is what the gated model computes."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from headspec.errors import EncoderError
from headspec.models.batching import Examples
from headspec.models.export import folder, onnx_file
from headspec.models.multitask import MultiTask
from support.running import studies
from support.tiny import HEADS, LAYERS, LIKE_OTHERS, TYPES, encoder, examples, pooling

TASKS = {"a": ["x", "y"], "of two words": None}
TEXTS = {task: examples(20, seed=i) for i, task in enumerate(TASKS)}
KEPT = np.random.default_rng(1).random((LAYERS, HEADS)) < 0.5
KEPT[1] = False


def model(kind: str) -> MultiTask:
    torch.manual_seed(1)
    built = encoder(kind)
    torch.manual_seed(1)
    return MultiTask(built, pooling(kind), TASKS).eval()


def export(net: MultiTask, out: Path, texts: dict[str, Examples] = TEXTS) -> float:
    return folder.export(net, KEPT, texts, studies.tokenizer().backend_tokenizer, {"run": "here"}, out)


@pytest.mark.slow
@pytest.mark.parametrize("kind", [kind for kind in TYPES if kind not in LIKE_OTHERS])
def test_the_file_computes_what_the_gated_model_does(kind, tmp_path):
    """Also on texts in other numbers and longer than those that it was written with."""
    assert export(model(kind), tmp_path / "out") < 1e-5
    net = model(kind)
    net.gates.values = torch.from_numpy(KEPT).float()
    more = {task: examples(n, seed=3, longest=60) for task, n in zip(TASKS, (7, 1), strict=True)}
    assert onnx_file.difference(tmp_path / "out" / "model.onnx", more, onnx_file.logits(net, more)) < 1e-5
    net.gates.values = None
    assert onnx_file.difference(tmp_path / "out" / "model.onnx", more, onnx_file.logits(net, more)) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "layers"), [("bert", 1), ("albert", LAYERS)])
def test_the_file_has_the_matrices_of_kept_heads_alone(kind, layers, tmp_path):
    """None for the layer without heads; all else that `layers` share is there once."""
    net = model(kind)
    heads = HEADS * LAYERS // layers
    whole = sum(p.numel() for p in net.parameters() if p.dim() == 2)
    export(net, tmp_path / "out")
    graph = onnx.load(tmp_path / "out" / "model.onnx").graph
    matrices = [
        t.dims for t in graph.initializer if len(t.dims) == 2 and t.data_type == onnx.TensorProto.FLOAT
    ]
    stored = sum(map(math.prod, matrices))
    assert whole - stored == (heads - KEPT.sum()) * 4 * (32 // HEADS) * 32


@pytest.mark.slow
def test_token_types_are_an_input_where_texts_have_them(tmp_path):
    net, texts = model("bert"), examples(20)
    texts.token_types = [(np.arange(len(ids)) % 2).tolist() for ids in texts.ids]
    assert export(net, tmp_path / "out", {"a": texts}) < 1e-5
    session = onnxruntime.InferenceSession(tmp_path / "out" / "model.onnx")
    assert [each.name for each in session.get_inputs()] == ["input_ids", "attention_mask", "token_type_ids"]
    assert [each.name for each in session.get_outputs()] == list(TASKS)


@pytest.mark.slow
def test_a_model_that_computes_something_else_is_not_left(tmp_path, monkeypatch):
    correct = folder.remove_heads
    monkeypatch.setattr(folder, "remove_heads", lambda net, kept: correct(net, ~kept))
    with pytest.raises(EncoderError, match="out: not written, because its logits differ by .* at most 1e-04"):
        export(model("bert"), tmp_path / "out")
    assert not list(tmp_path.iterdir())


class Interrupted:
    """A tokenizer that cannot be saved."""

    def save(self, path: str) -> None:
        raise KeyboardInterrupt


@pytest.mark.slow
def test_nothing_half_written_is_left(tmp_path):
    """Neither of an export that is interrupted, nor of one that was killed before."""
    killed = tmp_path / ".out.tmp"
    killed.mkdir()
    (killed / "model.onnx").touch()
    with pytest.raises(KeyboardInterrupt):
        folder.export(model("bert"), KEPT, TEXTS, Interrupted(), {}, tmp_path / "out")
    assert not list(tmp_path.iterdir())


def test_missing_packages_are_named(monkeypatch):
    onnx_file.installed()
    monkeypatch.setattr(onnx_file, "find_spec", lambda name: None if name == "onnxscript" else name)
    with pytest.raises(
        EncoderError, match=r"needs onnxscript, not installed; pip install 'headspec\[onnx\]'"
    ):
        onnx_file.installed()
