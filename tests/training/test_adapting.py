"""The method `lora`: adapters that train, weights that stay, and models that are saved as their adapters."""

import copy
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn

from headspec.config.sections.model import Model
from headspec.config.sections.training import Training
from headspec.errors import DamageError, EncoderError, NumericalError
from headspec.heads.importance import gate_gradients
from headspec.models import encoders
from headspec.models.adapters import adapters
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.saved import adopt, read_encoder
from headspec.training.adapting import adapt, size, targets
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train, trainer
from support.tiny import CPU, LAYERS, by_family, encoder, examples

CLASSES = {"a": ["x", "y"], "r": None}
SETTINGS = Training(batch_size=8, epochs=1, learning_rate=1e-2)
NEVER = 1e9


def data() -> dict:
    return {"a": examples(24, 2, 1), "r": examples(12, 5, 3)}


def trained(folder: Path, net: MultiTask, device: Device = CPU, **settings) -> MultiTask:
    """The model with adapters, after training."""
    torch.set_num_threads(1)
    adapt(net.encoder, 4, settings.pop("layers", "all"), 7, device)
    checkpoint = Checkpoint(folder / "c.pt", "f", NEVER)
    train(net, Setup(data(), SETTINGS.model_copy(update=settings), 7, device), checkpoint)
    return net.eval()


def written(kind: str, folder: Path) -> Path:
    encoder(kind).save_pretrained(folder)
    return folder


def pretrained(source: Path) -> MultiTask:
    torch.manual_seed(3)
    return MultiTask(*encoders.load(Model(source=str(source)), "models.own"), CLASSES)


def saved(folder: Path, source: Path) -> tuple[MultiTask, MultiTask]:
    """A trained model with adapters, and as it is loaded."""
    net = trained(folder, pretrained(source))
    net.save(folder / "model", encoders.reference(Model(source=str(source)), "models.own"))
    return net, MultiTask.load(folder / "model")


def logits(net: MultiTask) -> torch.Tensor:
    with torch.no_grad():
        return net.logits("a", net.pool(data()["a"].batch(np.arange(12))))


@pytest.mark.parametrize("kind", by_family())
def test_a_loaded_model_is_the_one_that_was_trained(tmp_path, kind):
    """Its weights are W + B A, and its heads can be gated."""
    source = written(kind, tmp_path / "source")
    before = pretrained(source)
    net, loaded = saved(tmp_path, source)
    assert adapters(net.encoder) and not adapters(loaded.encoder)
    assert not torch.allclose(logits(before), logits(loaded), atol=1e-3)
    torch.testing.assert_close(logits(loaded), logits(net), rtol=1e-5, atol=1e-5)
    weights = dict(before.encoder.named_parameters())
    changed = {n for n, w in loaded.encoder.named_parameters() if not torch.equal(w, weights[n])}
    assert changed == {f"{layer}.weight" for layer in targets(before.encoder, "all")}
    for layer in targets(before.encoder, "attention"):
        a, b = (adapters(net.encoder)[f"{layer}.{part}"] for part in "AB")
        sum_ = b @ a if isinstance(before.encoder.get_submodule(layer), nn.Linear) else (b @ a).T
        new, old = loaded.encoder.get_parameter(f"{layer}.weight"), weights[f"{layer}.weight"]
        torch.testing.assert_close(new - old, sum_.detach(), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("kind", by_family())
def test_only_adapters_and_classifiers_train(tmp_path, kind):
    net = MultiTask(encoder(kind), "mean", CLASSES)
    before = copy.deepcopy(net)
    trained(tmp_path, net)
    now = {name.replace(".base_layer", ""): w for name, w in net.named_parameters() if ".lora_" not in name}
    assert list(now) == [name for name, _ in before.named_parameters()]
    for name, weight in before.named_parameters():
        assert torch.equal(weight, now[name]) == name.startswith("encoder."), name
    found = adapters(net.encoder)
    assert all(weight.any() for weight in found.values())
    assert sum(map(torch.numel, found.values())) == size(before.encoder, 4, "all")


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
    with pytest.raises(EncoderError, match="this llama cannot have .*'layers.1.self_attn.o_proj' is a Bilin"):
        targets(net, "all")


def test_frozen_weights_have_neither_gradients_nor_moments(tmp_path):
    net = MultiTask(encoder("llama"), "last", CLASSES)
    adapt(net.encoder, 4, "all", 7, CPU)
    with trainer(net, Setup(data(), SETTINGS, 7, CPU)) as run:
        run.run(3, Checkpoint(tmp_path / "c.pt", "f", NEVER))
        moments, state = run.updates.optimizer.state, run.state()["model"]
    learnt = {*adapters(net.encoder).values(), *net.classifiers.parameters()}
    assert {*moments} == learnt
    assert {name for name, p in net.named_parameters() if p in learnt} == {*state}


def test_the_folder_holds_adapters_and_classifiers(tmp_path):
    source = written("bert", tmp_path / "source")
    net, _ = saved(tmp_path, source)
    files = {path.name: path.stat().st_size for path in (tmp_path / "model").iterdir()}
    assert set(files) == {"model.safetensors", "config.json", "classifiers.json"}
    numbers = 4 * (size(pretrained(source).encoder, 4, "all") + 32 * 3 + 3)
    assert numbers < files["model.safetensors"] < numbers + 5000  # a header for each of 40 tensors


def test_importance_of_a_loaded_model_is_that_of_its_merged_weights(tmp_path):
    source = written("bert", tmp_path / "source")
    net, loaded = saved(tmp_path, source)
    whole = pretrained(source)
    with torch.no_grad():
        for layer in targets(whole.encoder, "all"):
            a, b = (adapters(net.encoder)[f"{layer}.{part}"] for part in "AB")
            whole.encoder.get_submodule(layer).weight += b @ a
    whole.classifiers.load_state_dict(net.classifiers.state_dict())
    rows, texts = np.arange(12), data()["a"]
    gradients = gate_gradients(loaded, "a", texts, rows, CPU)
    np.testing.assert_array_equal(gradients, gate_gradients(whole.eval(), "a", texts, rows, CPU))
    assert np.abs(gradients - gate_gradients(pretrained(source).eval(), "a", texts, rows, CPU)).max() > 1e-3
    again, pooling = read_encoder(tmp_path / "model")
    assert pooling == whole.pooling
    assert all(torch.equal(w, again.get_parameter(n)) for n, w in loaded.encoder.named_parameters())


def test_adapters_that_are_edited_are_refused(tmp_path):
    saved(tmp_path, written("bert", tmp_path / "source"))
    path = tmp_path / "model" / "model.safetensors"
    adopt(path.parent, tmp_path / "other")
    assert torch.equal(*(logits(MultiTask.load(tmp_path / name)) for name in ("model", "other")))
    content = bytearray(path.read_bytes())
    content[-1000] ^= 1
    path.unlink()
    path.write_bytes(content)
    with pytest.raises(DamageError, match=r"model.safetensors: damaged"):
        MultiTask.load(tmp_path / "model")


@pytest.mark.parametrize("kind", ["bert", "gpt2", "llama"])
def test_weights_in_bfloat16_give_the_same_numbers(tmp_path, kind):
    """Autocast multiplies in it in any case; norms and embeddings stay in float32."""
    half, texts = Device("cpu", "bfloat16"), data()["a"].batch(np.arange(8))
    nets = [MultiTask(encoder(kind), "mean", CLASSES).eval() for _ in range(2)]
    for net, at in zip(nets, (half, CPU), strict=True):
        adapt(net.encoder, 4, "all", 7, at)
        for name, weight in adapters(net.encoder).items():
            torch.manual_seed(len(name))
            nn.init.normal_(weight, std=0.05)
    assert {p.dtype for p in nets[0].parameters()} == {torch.bfloat16, torch.float32}
    gradients = []
    for net in nets:
        with half.cast():
            loss = net.losses("a", net.pool(texts), texts.labels).mean()
        loss.backward()
        gradients.append([loss.detach(), *(weight.grad for weight in adapters(net.encoder).values())])
        assert all(weight.dtype == torch.float32 for weight in adapters(net.encoder).values())
    for one, other in zip(*gradients, strict=True):
        assert one.any() and torch.equal(one, other)


def test_a_divergence_names_the_key_of_its_learning_rate(tmp_path):
    with pytest.raises(NumericalError, match=r"training\.lora\.learning_rate \(now 3e\+38\)"):
        trained(tmp_path, MultiTask(encoder("bert"), "mean", CLASSES), learning_rate=3e38)
