"""Loading encoders: which weights are accepted, and which are refused."""

import copy
import hashlib
import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from headspec.config.sections.model import Model
from headspec.errors import DataError, EncoderError
from headspec.models import encoders
from headspec.models.encoders import load
from support import tiny
from support.running.studies import bert, local_model
from support.tiny import by_family


@pytest.fixture
def folder(tmp_path) -> Path:
    return local_model(tmp_path / "bert")


def change(folder: Path, edit) -> None:
    """Rewrite the weights with `edit` of name: tensor."""
    state = edit(load_file(folder / "model.safetensors"))
    save_file({k: v.contiguous() for k, v in state.items()}, folder / "model.safetensors", {"format": "pt"})


def refused(folder: Path, **settings) -> str:
    with pytest.raises(EncoderError) as caught:
        load(Model(source=str(folder), **settings), "models.own")
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_weights_are_those_that_were_saved(folder):
    encoder, pooling = load(Model(source=str(folder)), "models.own")
    assert pooling == "first"  # BERT's convention
    for name, value in bert().state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value), name


@pytest.mark.parametrize("kind", by_family())
def test_random_weights_are_those_of_an_untrained_model(kind, tmp_path, monkeypatch):
    """As spread as the config says, others for every seed, and no draw of another purpose changes."""
    pretrained = tiny.encoder(kind)
    monkeypatch.setattr(encoders, "pretrained", lambda path, dtype: copy.deepcopy(pretrained))
    model = Model(source=str(local_model(tmp_path / "bert")), weights="random")
    torch.manual_seed(1)
    states = [load(model, "models.own", seed)[0].state_dict() for seed in (0, 0, 1)]
    after = torch.rand(1)
    assert {name: value.shape for name, value in states[0].items()} == {
        name: value.shape for name, value in pretrained.state_dict().items()
    }
    differ = [
        [name for name, value in states[0].items() if not torch.equal(value, other[name])]
        for other in (states[1], states[2], pretrained.state_dict())
    ]
    matrices = [name for name, p in pretrained.named_parameters() if p.dim() == 2]
    assert not differ[0] and {*matrices} <= {*differ[1]} and {*matrices} <= {*differ[2]}
    drawn = torch.cat([states[0][name].flatten() for name in matrices])
    assert drawn.std() < pretrained.get_parameter(matrices[0]).std() / 2
    torch.manual_seed(1)
    assert torch.equal(after, torch.rand(1))


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_half_precision_weights_are_loaded_as_float32(folder, dtype):
    change(folder, lambda state: {name: value.to(dtype) for name, value in state.items()})
    config = json.loads((folder / "config.json").read_text()) | {"dtype": str(dtype).removeprefix("torch.")}
    (folder / "config.json").write_text(json.dumps(config))
    encoder, _ = load(Model(source=str(folder)), "models.own")
    assert {p.dtype for p in encoder.parameters()} == {torch.float32}
    for name, value in bert().state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value.to(dtype).float()), name


def test_a_checksum_or_its_first_digits_are_compared(folder):
    digest = hashlib.sha256((folder / "model.safetensors").read_bytes()).hexdigest()
    for expected in (digest, digest[:12]):
        load(Model(source=str(folder), sha256=expected), "models.own")
    message = refused(folder, sha256="0" * 64)
    assert message.startswith("models.own.sha256: ") and digest in message


def test_a_pooler_without_weights_is_left_out(folder):
    change(folder, lambda state: {k: v for k, v in state.items() if not k.startswith("pooler.")})
    encoder, _ = load(Model(source=str(folder)), "models.own")
    assert encoder.pooler is None
    assert encoder(input_ids=torch.tensor([[2, 5, 3]])).pooler_output is None


def test_missing_weights_are_refused(folder):
    change(folder, lambda state: {k: v for k, v in state.items() if "layer.1.attention" not in k})
    message = refused(folder)
    assert (
        "lack 10 tensors of the encoder, such as encoder.layer.1.attention.output.LayerNorm.bias" in message
    )


def test_weights_of_another_shape_are_refused(folder):
    config = json.loads((folder / "config.json").read_text()) | {"hidden_size": 64}
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(EncoderError, match="^models.own.source: .* cannot be loaded"):
        load(Model(source=str(folder)), "models.own")


def test_broken_weights_are_refused(folder):
    weights = folder / "model.safetensors"
    for content in (weights.read_bytes()[:-100], b"", b"\x00" * 64):
        weights.write_bytes(content)
        assert "cannot be loaded" in refused(folder)


def test_no_such_folder(tmp_path):
    with pytest.raises(DataError, match="^models.own.source: no file or folder 'nothing'"):
        load(Model(source=str(tmp_path / "nothing")), "models.own")


def test_an_unknown_model_type(folder):
    config = json.loads((folder / "config.json").read_text()) | {"model_type": "berty"}
    (folder / "config.json").write_text(json.dumps(config))
    message = refused(folder)
    assert message.startswith(f"models.own.source: '{folder}' cannot be loaded: ") and "`berty`" in message


def test_sharded_weights(tmp_path):
    folder = local_model(tmp_path / "bert")
    (folder / "model.safetensors").unlink()
    bert().save_pretrained(folder, max_shard_size="20KB")
    encoder, _ = load(Model(source=str(folder)), "models.own")
    assert refused(folder, sha256="0" * 8).startswith("models.own.sha256: ")
    for name, value in bert().state_dict().items():
        assert torch.equal(encoder.state_dict()[name], value), name
