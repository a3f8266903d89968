"""On a GPU: the numbers of a CPU, no waiting within steps, and running out of memory. Skipped without one."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch
from torch import nn
from transformers.masking_utils import AttentionMaskInterface

from headspec.atlas.ablation import ABLATION, MEAN_ABLATION, ablate
from headspec.atlas.attention import attention_measures
from headspec.atlas.relevance import loss_gradients, relevances
from headspec.config.sections.training import Training
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import masks
from headspec.heads.pruning import predictions
from headspec.models import devices
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train, trainer
from support.tiny import CPU, by_family, examples
from support.two_tasks import data, dies_after, model, weights

pytestmark = pytest.mark.needs("GPU")

GPU = Device("cuda", None, 32_768, 4096)
DATA = data()


@pytest.fixture(autouse=True)
def exact() -> Iterator[None]:
    """Restore the state of PyTorch, and free the memory of the previous test."""
    torch.cuda.empty_cache()
    yield
    torch.cuda.set_sync_debug_mode("default")
    torch.cuda.set_per_process_memory_fraction(1.0)


def without_dropout(kind: str = "bert", **settings) -> MultiTask:
    net = model(kind, attention_probs_dropout_prob=0.0, attention_dropout=0.0, **settings)
    for module in net.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
    return net


def history(folder: Path, net: MultiTask, device: Device, seconds: float = 1e9) -> pd.Series:
    """The losses of a training with checkpoints in a folder."""
    settings = Training(batch_size=8, epochs=2, learning_rate=1e-4)
    checkpoint = Checkpoint(folder / f"{device.name}.pt", "f", seconds)
    return train(net, Setup(DATA, settings, 7, device), checkpoint)["loss"]


def allow(share: float, memory: int) -> None:
    """Let this process have a share of some bytes of memory of the GPU."""
    torch.cuda.empty_cache()
    whole = torch.cuda.get_device_properties(0).total_memory
    torch.cuda.set_per_process_memory_fraction(share * memory / whole)


#: what is measured on a device, of a model and rows of its task `a`
MEASURES: dict[str, Callable[[MultiTask, np.ndarray, Device], np.ndarray]] = {
    "importance": lambda net, rows, device: gate_gradients(net, "a", DATA["a"], rows, device),
    "by token": lambda net, rows, device: loss_gradients(net, "a", DATA["a"], rows, device),
    "relevance": lambda net, rows, device: relevances(net, "a", DATA["a"], rows, device),
    # in float32 at any precision of training
    "attention": lambda net, rows, device: attention_measures(
        net, DATA, len(rows), {7}, replace(device, autocast="bfloat16")
    )["value"].to_numpy(),
    "ablation": lambda net, rows, device: np.stack(
        [*ablate(net, "a", DATA["a"], rows, device, (ABLATION, MEAN_ABLATION)).increase.values()]
    ),
}


@pytest.mark.parametrize("kind", by_family())
def test_numbers_are_those_of_a_cpu(kind):
    net, rows = model(kind), np.arange(40)
    for name, measure in MEASURES.items():
        expected, found = (measure(net, rows, device) for device in (CPU, GPU))
        scale = np.abs(expected).max()
        assert scale > 0, name
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-3 * scale, err_msg=name)
    planned = masks({"a": np.arange(12.0).reshape(3, 4)}, 0.5, [0.5], draws=2, seed=0)
    predicted = [predictions(net, DATA, planned, device)["a"] for device in (CPU, GPU)]
    assert (predicted[0] == predicted[1]).mean() > 0.99


@pytest.mark.parametrize("kind", ["bert", "modernbert", "deberta-v2", "llama"])
def test_training_agrees_with_a_cpu(tmp_path, kind):
    losses = [history(tmp_path, without_dropout(kind), device) for device in (CPU, GPU)]
    np.testing.assert_allclose(*losses, rtol=1e-3)


def test_steps_do_not_wait_for_the_gpu(monkeypatch):
    as_before = dict(AttentionMaskInterface._global_mapping)
    monkeypatch.setattr(AttentionMaskInterface, "_global_mapping", as_before)  # a job changes it
    net, device = model(), devices.prepare("fp32", 1)
    with trainer(net, Setup(DATA, Training(batch_size=8, epochs=2), 7, device)) as run:

        def step(number: int) -> None:
            run._backward(run.steps[number], [])
            run.updates.step(run.steps[number].task, 1e-4)

        step(0)  # what is set up once may wait
        torch.cuda.set_sync_debug_mode("error")
        for number in range(1, 6):
            step(number)
        with pytest.raises(RuntimeError, match="synchroniz"):
            next(net.parameters()).sum().item()


def test_resumed_training_continues_and_ends_with_the_same_weights(tmp_path, caplog):
    """But for the order in which a GPU adds, which is far below a step of the learning rate, 1e-4."""
    caplog.set_level("INFO")
    undisturbed, resumed = model(), model()
    start = weights(undisturbed)
    history(tmp_path, undisturbed, GPU)
    with dies_after(9):
        history(tmp_path, model(), GPU, seconds=0)
    assert "continuing" not in caplog.text
    history(tmp_path, resumed, GPU)
    assert "continuing after step 9 of" in caplog.text
    moved = 0
    for name, weight in undisturbed.state_dict().items():
        torch.testing.assert_close(resumed.state_dict()[name], weight, rtol=1e-4, atol=1e-6, msg=name)
        moved += int((weight.cpu() - start[name].cpu()).abs().max() > 1e-4)
    assert moved > 0.5 * len(start)  # or any training would pass


def test_batches_that_do_not_fit_are_made_smaller(caplog):
    """One big batch of long examples on a part of the memory: the same gradients, in smaller batches."""
    caplog.set_level("INFO")
    many, net = examples(512, 2, shortest=60, longest=60), model(hidden_size=256, intermediate_size=2048)
    expected = gate_gradients(net, "a", many, np.arange(512), GPU)
    assert "out of memory" not in caplog.text
    allow(1 / 2, torch.cuda.max_memory_reserved())
    gradients = gate_gradients(net, "a", many, np.arange(512), GPU)
    assert "out of memory" in caplog.text
    np.testing.assert_allclose(gradients, expected, rtol=1e-3, atol=1e-5)


def test_steps_that_do_not_fit_are_divided(tmp_path, caplog):
    caplog.set_level("INFO")
    texts = {"a": examples(64, 2, shortest=60, longest=60)}
    settings = Training(batch_size=64, epochs=2, learning_rate=1e-4)
    losses = []
    torch.cuda.reset_peak_memory_stats()
    for name in ("whole", "divided"):
        net = without_dropout(hidden_size=256, intermediate_size=4096)
        if name == "divided":
            allow(0.6, torch.cuda.max_memory_reserved())
        checkpoint = Checkpoint(tmp_path / name, "f", 1e9)
        losses.append(train(net, Setup(texts, settings, 7, GPU), checkpoint)["loss"])
        assert ("microbatches" in caplog.text) == (name == "divided")
        del net
    np.testing.assert_allclose(*losses, rtol=1e-3)
