"""Models of frozen runs: classifiers, and where to find the encoder."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from headspec.config.sections.model import Model
from headspec.errors import DamageError, DataError, MissingError
from headspec.models import encoders
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from support.data.model_files import configure, reweigh
from support.models import MODELS
from support.running.studies import local_model
from support.tiny import by_family


def save(folder: Path, source: Path) -> None:
    """Save a model whole in `folder`/whole, and as of a frozen run in `folder`/frozen."""
    model = Model(source=str(source))
    net = MultiTask(*encoders.load(model, "models.own"), {"a": ["x", "y"], "b": None})
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
def source(tmp_path) -> Path:
    """The source of an encoder, with which models are saved beside it."""
    folder = local_model(tmp_path / "source")
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
        (shutil.rmtree, MissingError, "{key}: no file or folder 'source' in "),
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
