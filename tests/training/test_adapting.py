"""The method `lora`: adapters that train, weights that stay, and models that are saved as their adapters."""

from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import safe_open
from torch import nn

from headspec.config.sections.model import Model
from headspec.config.sections.training import Training
from headspec.errors import DamageError, ModelError, NumericalError
from headspec.models import encoders
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.saved import adapters, adopt, read_encoder
from headspec.training.loop import Setup, train, trainer
from headspec.training.trainable import adapt, size, targets
from support.tiny import CPU, LAYERS, by_family, encoder, examples
from support.two_tasks import never, same

CLASSES = {"a": ["x", "y"], "r": None}
SETTINGS = Training(batch_size=8, epochs=1, learning_rate=1e-2)
DATA = {"a": examples(24, 2, 1), "r": examples(12, 5, 3)}


def pretrained(source: Path) -> MultiTask:
    torch.manual_seed(3)
    return MultiTask.pretrained(Model(source=str(source)), "models.own", CLASSES)


def trained(folder: Path, kind: str) -> tuple[MultiTask, MultiTask]:
    """A model before training, and with adapters after it, which is saved in `folder`/model."""
    torch.set_num_threads(1)
    source = folder / "source"
    encoder(kind).save_pretrained(source)
    before, net = pretrained(source), pretrained(source)
    adapt(net, 4, "all", 7, CPU)
    train(net, Setup(DATA, SETTINGS, 7, CPU), never(folder))
    net.save(folder / "model", encoders.reference(Model(source=str(source)), "models.own"))
    return before, net.eval()


def logits(net: MultiTask) -> torch.Tensor:
    with torch.no_grad():
        return net.logits("a", net.pool(DATA["a"].batch(np.arange(12))))


@pytest.mark.parametrize("kind", by_family())
def test_only_adapters_and_classifiers_train(tmp_path, kind):
    before, net = trained(tmp_path, kind)
    now = {name.replace(".base_layer", ""): w for name, w in net.named_parameters() if ".lora_" not in name}
    assert list(now) == [name for name, _ in before.named_parameters()]
    for name, weight in before.named_parameters():
        assert torch.equal(weight, now[name]) == name.startswith("encoder."), name
    found = adapters(net.encoder)
    assert all(weight.any() for weight in found.values())
    assert sum(map(torch.numel, found.values())) == size(before.encoder, 4, "all")
    with safe_open(tmp_path / "model" / "model.safetensors", "pt") as file:
        assert len(file.keys()) == len(found) + 4  # two classifiers


@pytest.mark.parametrize("kind", by_family())
def test_a_loaded_model_is_an_ordinary_one_with_the_weights_w_plus_b_a(tmp_path, kind):
    whole, net = trained(tmp_path, kind)
    plain, loaded = logits(whole), MultiTask.load(tmp_path / "model")
    with torch.no_grad():
        for layer in targets(whole.encoder, "all"):
            a, b = (adapters(net.encoder)[f"{layer}.{part}"] for part in "AB")
            module = whole.encoder.get_submodule(layer)
            module.weight += b @ a if isinstance(module, nn.Linear) else (b @ a).T
    whole.classifiers.load_state_dict(net.classifiers.state_dict())
    assert list(whole.state_dict()) == list(loaded.state_dict()) and same(whole, loaded)
    torch.testing.assert_close(logits(loaded), logits(net), rtol=1e-5, atol=1e-5)
    assert not torch.allclose(logits(loaded), plain, atol=1e-3)
    again, pooling = read_encoder(tmp_path / "model")
    assert pooling == whole.pooling and same(again, loaded.encoder)


def test_layers_that_get_adapters():
    assert len(targets(encoder("bert"), "all")) == LAYERS * 6
    assert len(targets(encoder("bert"), "attention")) == LAYERS * 4
    assert len(targets(encoder("llama"), "all")) == LAYERS * 7
    assert len(targets(encoder("gpt2"), "attention")) == LAYERS * 2
    # of a matrix (out, in), rank x (out + in)
    assert size(encoder("bert"), 3, "all") == 3 * LAYERS * (4 * (32 + 32) + 2 * (32 + 48))


def test_layers_that_cannot_have_adapters_are_refused():
    net = encoder("llama")
    net.layers[1].self_attn.o_proj = nn.Bilinear(2, 3, 4)
    with pytest.raises(ModelError, match="this llama cannot have .*'layers.1.self_attn.o_proj' is a Bilin"):
        targets(net, "all")


def test_frozen_weights_have_neither_gradients_nor_moments(tmp_path):
    net = MultiTask(encoder("llama"), "last", CLASSES)
    adapt(net, 4, "all", 7, CPU)
    with trainer(net, Setup(DATA, SETTINGS, 7, CPU)) as run:
        run.run(3, never(tmp_path))
        moments, state = run.updates.optimizer.state, run.state()["model"]
    learnt = {*adapters(net.encoder).values(), *net.classifiers.parameters()}
    assert {*moments} == learnt
    assert {name for name, p in net.named_parameters() if p in learnt} == {*state}


def test_adapters_that_are_edited_are_refused(tmp_path):
    trained(tmp_path, "bert")
    adopt(tmp_path / "model", tmp_path / "other")
    assert torch.equal(*(logits(MultiTask.load(tmp_path / name)) for name in ("model", "other")))
    path = tmp_path / "model" / "model.safetensors"
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.unlink()  # it is a link
    path.write_bytes(content)
    with pytest.raises(DamageError, match=r"model.safetensors: damaged"):
        MultiTask.load(tmp_path / "model")


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_weights_in_bfloat16_give_the_same_numbers(kind):
    """Autocast multiplies in it in any case; norms and embeddings stay in float32."""
    half, texts = Device("cpu", "bfloat16"), DATA["a"].batch(np.arange(8))
    nets = [MultiTask(encoder(kind), "mean", CLASSES).eval() for _ in range(2)]
    gradients = []
    for net, device in zip(nets, (half, CPU), strict=True):
        adapt(net, 4, "all", 7, device)
        for name, weight in adapters(net.encoder).items():
            torch.manual_seed(len(name))
            nn.init.normal_(weight, std=0.05)
        with half.cast():
            loss = net.losses("a", net.pool(texts), texts.labels).mean()
        loss.backward()
        gradients.append([loss.detach(), *(weight.grad for weight in adapters(net.encoder).values())])
        assert all(weight.dtype == torch.float32 for weight in adapters(net.encoder).values())
    assert {p.dtype for p in nets[0].parameters()} == {torch.bfloat16, torch.float32}
    for one, other in zip(*gradients, strict=True):
        assert one.any() and torch.equal(one, other)


def test_a_divergence_names_the_key_of_its_learning_rate(tmp_path):
    net = MultiTask(encoder("bert"), "mean", CLASSES)
    adapt(net, 4, "all", 7, CPU)
    setup = Setup(DATA, SETTINGS.model_copy(update={"learning_rate": 3e38}), 7, CPU)
    with pytest.raises(NumericalError, match=r"training\.lora\.learning_rate \(now 3e\+38\)"):
        train(net, setup, never(tmp_path))
