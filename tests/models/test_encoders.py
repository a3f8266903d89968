"""Encoders that are loaded: which weights are accepted, and what classifiers of frozen runs refer to."""

import copy
import hashlib
import json
import shutil
from pathlib import Path

import pytest
import torch
from transformers import PreTrainedModel

from headspec.config.sections.model import Model
from headspec.errors import DamageError, DataError, MissingError, ModelError
from headspec.models import encoders
from headspec.models.encoders import load
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from support import tiny
from support.data.model_files import configure, reweigh
from support.models import MODELS
from support.running.studies import bert, local_model
from support.tiny import by_family


@pytest.fixture
def folder(tmp_path) -> Path:
    return local_model(tmp_path / "bert")


def loaded(folder: Path, **settings) -> PreTrainedModel:
    return load(Model(source=str(folder), **settings), "models.own")


def refused(folder: Path, **settings) -> str:
    with pytest.raises(ModelError) as caught:
        loaded(folder, **settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_weights_are_those_that_were_saved_in_float32(folder, dtype):
    reweigh(folder, lambda name, values: values.to(dtype))
    configure(folder, dtype=str(dtype).removeprefix("torch."))
    state = loaded(folder).state_dict()
    for name, value in bert().state_dict().items():
        assert state[name].dtype == torch.float32 and torch.equal(state[name], value.to(dtype).float()), name


@pytest.mark.parametrize("kind", by_family())
def test_random_weights_are_those_of_an_untrained_model(kind, folder, monkeypatch):
    """As spread as the config says, others for every seed, and no draw of another purpose changes."""
    pretrained = tiny.encoder(kind)
    monkeypatch.setattr(encoders, "pretrained", lambda path, **_: copy.deepcopy(pretrained))
    model = Model(source=str(folder), weights="random")
    torch.manual_seed(1)
    states = [load(model, "models.own", seed).state_dict() for seed in (0, 0, 1)]
    after = torch.rand(1)
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))
    original = pretrained.state_dict()
    assert {n: v.shape for n, v in states[0].items()} == {n: v.shape for n, v in original.items()}
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())
    matrices = [name for name, p in pretrained.named_parameters() if p.dim() == 2]
    for name in matrices:
        assert not torch.equal(states[0][name], states[2][name]), name
        assert not torch.equal(states[0][name], original[name]), name
    drawn = torch.cat([states[0][name].flatten() for name in matrices])
    assert drawn.std() < original[matrices[0]].std() / 2


def test_a_checksum_or_its_first_digits_are_compared(folder):
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    for expected in (digest, digest[:12]):
        loaded(folder, sha256=expected)
    message = refused(folder, sha256="0" * 64)
    assert message.startswith("models.own.sha256: ") and digest in message


def test_weights_in_several_files_have_no_one_checksum(folder):
    (folder / "model.safetensors").unlink()
    bert().save_pretrained(folder, max_shard_size="20KB")
    assert refused(folder, sha256="0" * 8).startswith("models.own.sha256: ")
    state = loaded(folder).state_dict()
    assert all(torch.equal(state[name], value) for name, value in bert().state_dict().items())


def test_a_pooler_without_weights_is_left_out_and_no_others(folder):
    reweigh(folder, lambda name, values: None if name.startswith("pooler.") else values)
    encoder = loaded(folder)
    assert encoder.pooler is None
    assert encoder(input_ids=torch.tensor([[2, 5, 3]])).pooler_output is None
    reweigh(folder, lambda name, values: None if "layer.1.attention" in name else values)
    assert "lack 10 tensors of the encoder, such as encoder.layer.1.attention.output.Lay" in refused(folder)


@pytest.mark.parametrize(
    ("key", "value", "told"),
    [
        ("hidden_size", 64, "cannot be loaded: "),
        ("model_type", "berty", "is of type berty, which is not a type"),
    ],
)
def test_a_config_that_is_not_that_of_the_weights_is_refused(folder, key, value, told):
    configure(folder, **{key: value})
    assert refused(folder).startswith(f"models.own.source: '{folder}' {told}")


def test_broken_and_missing_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    for content in (weights.read_bytes()[:-100], b"", b"\x00" * 64):
        weights.write_bytes(content)
        assert "cannot be loaded" in refused(folder)
    with pytest.raises(DataError, match="^models.own.source: no file or folder 'nothing'"):
        loaded(folder.parent / "nothing")


# --- frozen runs: classifiers, and where to find the encoder


def save(folder: Path, source: Path) -> None:
    """Save a model whole in `folder`/whole, and as of a frozen run in `folder`/frozen."""
    model = Model(source=str(source))
    net = MultiTask.pretrained(model, "models.own", {"a": ["x", "y"], "b": None})
    net.save(folder / "whole")
    net.save(folder / "frozen", encoders.reference(model, "models.own"))


def same(a: torch.nn.Module, b: torch.nn.Module) -> None:
    """Equal by name, type and byte, buffers that are not saved included."""
    ours, theirs = (dict([*m.state_dict().items(), *m.named_buffers()]) for m in (a, b))
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype and torch.equal(value, theirs[name]), name


@pytest.mark.parametrize("name", by_family(MODELS))
def test_a_frozen_run_loads_as_if_its_encoder_were_saved(tmp_path, model_folder, name):
    save(tmp_path, model_folder(name))
    whole, frozen = (MultiTask.load(tmp_path / each) for each in ("whole", "frozen"))
    same(whole, frozen)
    assert (whole.pooling, whole.classes, whole.training) == (frozen.pooling, frozen.classes, frozen.training)
    assert whole.encoder.config._attn_implementation == frozen.encoder.config._attn_implementation
    encoder, pooling = read_encoder(tmp_path / "frozen")
    same(encoder, whole.encoder)
    assert pooling == whole.pooling


@pytest.fixture
def source(folder, tmp_path) -> Path:
    """The source of an encoder, with which models are saved beside it."""
    save(tmp_path, folder)
    return folder


def test_a_frozen_run_holds_the_classifiers_alone(source, tmp_path):
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "frozen").iterdir()}
    assert set(sizes) == {"model.safetensors", "config.json", "classifiers.json"}
    numbers = 4 * (32 * 3 + 3)  # of two classes and a score, from 32 dimensions
    assert numbers < sizes["model.safetensors"] < numbers + 500


def point_elsewhere(source: Path) -> None:
    path = source.with_name("frozen") / "config.json"
    path.write_text(path.read_text().replace(json.dumps(str(source)), '"other"'))


OTHER = "{key}: '{source}' is not the encoder that the classifiers were"


@pytest.mark.parametrize(
    ("edit", "error", "message"),
    [
        (lambda source: reweigh(source, lambda name, values: 2 * values), DamageError, OTHER),
        (lambda source: configure(source, layer_norm_eps=1e-6), DamageError, OTHER),
        (lambda source: local_model(source, intermediate_size=64), DamageError, OTHER),
        (shutil.rmtree, MissingError, "{key}: no file or folder 'bert' in "),
        (point_elsewhere, DamageError, "{file}: damaged"),
    ],
)
def test_another_encoder_is_refused(source, tmp_path, edit, error: type[DataError], message):
    (source / "README.md").write_text("A model")
    (source / "tokenizer.json").unlink()  # not among the files of the encoder
    MultiTask.load(tmp_path / "frozen")
    edit(source)
    with pytest.raises(error) as caught:
        MultiTask.load(tmp_path / "frozen")
    file = f"{tmp_path}/frozen/config.json"
    expected = message.format(file=file, key=f"{file}: pretrained.source", source=source)
    assert str(caught.value).startswith(expected)
    MultiTask.load(tmp_path / "whole")


def test_an_encoder_that_was_renamed_is_found_by_the_config_of_its_study(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run = Path("results/s/runs/m/t/frozen/seed0")
    save(run, folder)
    before = MultiTask.load(run / "frozen")
    moved, other = folder.rename(tmp_path / "moved"), local_model(tmp_path / "other", intermediate_size=64)
    models = {"no": {"transformer": {}}, "other": {"source": str(other)}, "m": {"source": "./moved"}}
    Path("results/s/config.yaml").write_text(json.dumps({"models": models}))
    same(MultiTask.load(run / "frozen"), before)
    configure(moved, layer_norm_eps=1e-6)
    with pytest.raises(MissingError, match="pretrained.source: no file or folder 'bert'"):
        MultiTask.load(run / "frozen")


def test_files_that_a_run_did_not_save_are_not_read(source, tmp_path):
    """Such as an adapter, which transformers would apply."""
    model, folder = MultiTask.pretrained(Model(source=str(source)), "m", {}), tmp_path / "run"
    model.save(folder)
    (folder / "adapter_config.json").write_text("{}")
    saved = read_encoder(folder)[0]
    assert all(
        torch.equal(saved.state_dict()[name], each) for name, each in model.encoder.state_dict().items()
    )
