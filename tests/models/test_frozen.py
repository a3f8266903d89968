"""Models of frozen runs: classifiers, and where to find the encoder."""

import json
import shutil
from pathlib import Path

import pytest
import torch

from headspec.config.sections.model import Model
from headspec.errors import DamageError, MissingError
from headspec.models import encoders
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from support.models import MODELS
from support.running.studies import local_model
from support.tiny import by_family

CLASSES = {"a": ["x", "y"], "b": None}


def saved(folder: Path, source: Path) -> tuple[MultiTask, MultiTask]:
    """A model saved whole in `folder`/whole, and for a frozen run in `folder`/frozen; both loaded."""
    model = Model(source=str(source))
    whole = MultiTask(*encoders.load(model, "models.own"), CLASSES)
    whole.save(folder / "whole")
    whole.save(folder / "frozen", encoders.reference(model, "models.own"))
    return MultiTask.load(folder / "whole"), MultiTask.load(folder / "frozen")


def same(a: torch.nn.Module, b: torch.nn.Module) -> None:
    """Equal by name, type and byte, buffers that are not saved included."""
    ours, theirs = (dict([*m.state_dict().items(), *m.named_buffers()]) for m in (a, b))
    assert list(ours) == list(theirs)
    for name, value in ours.items():
        assert value.dtype == theirs[name].dtype and torch.equal(value, theirs[name]), name


@pytest.mark.parametrize("name", by_family(MODELS))
def test_a_frozen_run_loads_as_if_its_encoder_were_saved(tmp_path, model_folder, name):
    whole, frozen = saved(tmp_path, model_folder(name))
    same(whole, frozen)
    assert (whole.pooling, whole.classes, whole.training) == (frozen.pooling, frozen.classes, frozen.training)
    assert whole.encoder.config._attn_implementation == frozen.encoder.config._attn_implementation
    encoder, pooling = read_encoder(tmp_path / "frozen")
    same(encoder, whole.encoder)
    assert pooling == whole.pooling


def test_a_frozen_run_holds_the_classifiers_alone(tmp_path):
    saved(tmp_path, local_model(tmp_path / "source"))
    sizes = {p.name: p.stat().st_size for p in (tmp_path / "frozen").iterdir()}
    assert set(sizes) == {"model.safetensors", "config.json", "classifiers.json"}
    numbers = 4 * (32 * 3 + 3)  # of two classes and a score, from 32 dimensions
    assert numbers < sizes["model.safetensors"] < numbers + 500


def change(name: str):
    def edit(source: Path) -> None:
        data = (source / name).read_bytes()
        at = data.rfind(b"0")
        (source / name).write_bytes(data[:at] + b"1" + data[at + 1 :])

    return edit


def other_encoder(source: Path) -> None:
    shutil.rmtree(source)
    local_model(source, intermediate_size=64)


@pytest.mark.parametrize("edit", [change("model.safetensors"), change("config.json"), other_encoder])
def test_another_encoder_of_the_same_name_is_refused(tmp_path, edit):
    source = local_model(tmp_path / "source")
    saved(tmp_path, source)
    edit(source)
    with pytest.raises(DamageError) as caught:
        MultiTask.load(tmp_path / "frozen")
    key = f"{tmp_path}/frozen/config.json: pretrained.source"
    assert str(caught.value).startswith(f"{key}: '{source}' is not the encoder that the classifiers were")
    MultiTask.load(tmp_path / "whole")


def test_a_missing_encoder_is_named(tmp_path):
    source = local_model(tmp_path / "source")
    saved(tmp_path, source)
    (source / "README.md").write_text("A model")
    (source / "tokenizer.json").unlink()  # not among the files of the encoder
    MultiTask.load(tmp_path / "frozen")
    source.rename(tmp_path / "moved")
    with pytest.raises(MissingError, match=f"frozen/config.json: pretrained.source: no .*'{source}'"):
        MultiTask.load(tmp_path / "frozen")


def test_a_pointer_that_is_edited_is_refused(tmp_path):
    saved(tmp_path, local_model(tmp_path / "source"))
    path = tmp_path / "frozen" / "config.json"
    pointer = json.loads(path.read_text())
    pointer["pretrained"]["source"] = str(tmp_path / "other")
    path.write_text(json.dumps(pointer))
    with pytest.raises(DamageError, match="config.json: damaged"):
        MultiTask.load(tmp_path / "frozen")
