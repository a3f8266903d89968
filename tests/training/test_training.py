"""Training: schedules, learning, resuming, frozen encoders."""

from contextlib import nullcontext
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import devices
from headspec.models.devices import Device
from headspec.models.internals.activations import representations
from headspec.models.multitask import MultiTask
from headspec.training import loop
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import train, trainer
from headspec.training.schedule import buckets, learning_rates, schedule
from headspec.training.trainable import adapt
from headspec.training.updates import clip
from support.tiny import CPU, by_family, encoder, examples, pooling
from support.two_tasks import CLASSES, NO_DROPOUT, data, dies_after, model, never, same, setup, weights

EXACT = ["step", "epoch", "task", "loss", "learning_rate"]  # columns without times and memory


def run(folder, net: MultiTask, seconds=1e9, method="tuned", **settings) -> pd.DataFrame:
    torch.set_num_threads(1)
    if method == "lora":
        adapt(net, 4, "all", 7, CPU)
    fixed = None
    if method == "frozen":
        fixed = {t: e.vectors(representations([(t, net)], e, CPU)) for t, e in data().items()}
    checkpoint, kept = (Checkpoint(folder / name, "f", seconds) for name in ("checkpoint.pt", "kept.pt"))
    return train(net, replace(setup(**settings), features=fixed), checkpoint, kept, reserve=0.2)


@pytest.mark.parametrize("method", ["tuned", "frozen", "lora"])
def test_resumed_training_gives_the_same_weights(tmp_path, method):
    """And the same state, to the byte, from which IAT branches off: it is known by its SHA-256."""
    undisturbed, resumed = model(), model()
    history = run(tmp_path, undisturbed, method=method)
    kept = (tmp_path / "kept.pt").read_bytes()
    (tmp_path / "kept.pt").unlink()
    assert history["step"].tolist() == list(range(2 * (5 + 4)))
    assert (history[["examples_per_second", "memory_mb"]] > 0).all(axis=None)
    with dies_after(9):
        run(tmp_path, model(), seconds=0, method=method)
    again = run(tmp_path, resumed, method=method)
    pd.testing.assert_frame_equal(history[EXACT], again[EXACT])
    assert (again[["examples_per_second", "memory_mb"]] > 0).all(axis=None)
    assert same(undisturbed, resumed) and (tmp_path / "kept.pt").read_bytes() == kept


def test_a_checkpoint_of_another_run_is_not_continued(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c.pt", "one", 0)
    checkpoint.save({"history": []})
    assert checkpoint.load() is not None
    assert Checkpoint(tmp_path / "c.pt", "other", 0).load() is None


@pytest.mark.slow
def test_training_learns(tmp_path):
    loss = run(tmp_path, model(**NO_DROPOUT), epochs=20, learning_rate=2e-3)["loss"]
    assert loss.tail(15).mean() < 0.5 * loss.head(15).mean()


def limit_memory(monkeypatch, after: int) -> list[int]:
    """After this many batches, those of more than 3 examples run out of memory; return sizes of batches."""
    pool, sizes = MultiTask.pool, []

    def limited(self, batch):
        sizes.append(len(batch.rows))
        if len(sizes) > after and sizes[-1] > 3:
            raise (torch.OutOfMemoryError, MemoryError)[len(sizes) % 2]("CUDA out of memory")  # as numpy, too
        return pool(self, batch)

    monkeypatch.setattr(MultiTask, "pool", limited)
    return sizes


def test_running_out_of_memory_changes_no_numbers(tmp_path, monkeypatch):
    """With dropout; the same batches are processed in microbatches."""
    plain, limited = model(), model()
    history = run(tmp_path, plain)
    sizes = limit_memory(monkeypatch, 8)
    again = run(tmp_path, limited)
    assert max(sizes[:8]) == 8 and sum(size > 3 for size in sizes[8:]) == 2 and max(sizes[-20:]) == 2
    assert again["loss"].to_numpy() == pytest.approx(history["loss"].to_numpy(), rel=1e-4)
    for name, value in weights(plain).items():
        torch.testing.assert_close(limited.state_dict()[name], value, rtol=2e-3, atol=1e-4, msg=name)


def test_pruning_takes_smaller_batches_when_memory_runs_out(monkeypatch):
    net, texts = model().eval(), {"a": examples(40)}
    masks = [Mask("none", None, None, None, np.zeros((3, 4), dtype=bool))]
    predicted = predictions(net, texts, masks, CPU)["a"]
    sizes = limit_memory(monkeypatch, 0)
    np.testing.assert_array_equal(predictions(net, texts, masks, CPU)["a"], predicted)
    assert max(sizes) == 40


@pytest.mark.parametrize("error", [torch.OutOfMemoryError("of 1 example"), RuntimeError("another")])
def test_errors_that_smaller_batches_cannot_avoid_are_raised(tmp_path, monkeypatch, error):
    def fail(self, batch):
        raise error

    net = model().eval()
    monkeypatch.setattr(MultiTask, "pool", fail)
    with pytest.raises(type(error), match=str(error)):
        gate_gradients(net, "a", examples(4), np.arange(4), CPU)
    with pytest.raises(type(error), match=str(error)):
        run(tmp_path, net)


def test_frozen_training_learns_from_the_features_and_changes_only_the_classifiers(tmp_path):
    """Features need not be those of the encoder."""
    rng, net = np.random.default_rng(0), model(classifier_dropout=0.0)
    features = {t: rng.normal(size=(len(e), 32)).astype(np.float32) for t, e in data().items()}
    before = weights(net)
    with trainer(net, replace(setup(), features=features)) as training:
        step = training.steps[0]
        pooled = torch.from_numpy(features[step.task][step.rows])
        labels = data()[step.task].batch(step.rows).labels
        expected = net.losses(step.task, pooled, labels).mean().item()
        training.run(len(training.steps), never(tmp_path))
    assert training.history[0][3] == pytest.approx(expected, rel=1e-5)
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name


@pytest.mark.parametrize("method", ["tuned", "frozen", "lora"])
def test_without_clipping_gradients_are_unchanged(tmp_path, method):
    models = {clip: model() for clip in (None, 1e30, 0.01)}
    losses = {clip: run(tmp_path, net, method=method, clip=clip)["loss"] for clip, net in models.items()}
    assert losses[None].equals(losses[1e30]) and not losses[None].equals(losses[0.01])
    assert same(models[None], models[1e30])


def test_losses_fetched_late_change_nothing(tmp_path):
    """A GPU's losses are fetched in blocks, and when a checkpoint is due; no row is lost."""
    models, histories = [model(), model()], []
    for net, interval in zip(models, (0.0, 1e9), strict=True):
        with trainer(net, setup()) as training:
            training.sync_interval = interval
            training.run(9, never(tmp_path))
            training.run(len(training.steps), never(tmp_path))
            histories.append(training.frame())
    pd.testing.assert_frame_equal(histories[0][EXACT], histories[1][EXACT])
    speed = histories[1]["examples_per_second"]
    assert speed.nunique() == 2 and (speed > 0).all()
    assert same(*models)


@pytest.fixture
def every_mask():
    """Attention masks are always built, as on a GPU."""
    before = {name: ALL_MASK_ATTENTION_FUNCTIONS[name] for name in ("sdpa", "eager")}
    devices.always_mask()
    yield
    for name, function in before.items():
        AttentionMaskInterface.register(name, function)


@pytest.mark.parametrize("kind", by_family())
def test_no_step_waits_for_numbers_from_the_device(kind, every_mask):
    """The device `meta` has no numbers, so reading one of a loss, gradient, norm or prediction would fail."""
    net = MultiTask(encoder(kind), pooling(kind), CLASSES).to("meta").train()
    batch = examples(8, 2, 1).batch(np.arange(8), "meta")
    loss = net.losses("a", net.pool(batch), batch.labels).mean()
    loss.backward()
    gradients = [p.grad for p in net.parameters() if p.grad is not None]
    norm = torch.nn.utils.get_total_norm(gradients)
    clip(net.parameters(), 1.0, norm)
    assert len(gradients) > 20 and loss.is_meta and norm.is_meta
    assert net.predictions("b", net.pool(batch)).is_meta
    with pytest.raises(RuntimeError, match="meta"):
        loss.item()


@pytest.mark.parametrize("kind", ["bert", "mpnet", "gpt2", "llama"])
def test_masks_that_are_always_built_change_nothing(kind, request):
    net, texts = model(kind).eval(), examples(9, 2, 1)
    batches = [texts.batch(rows) for rows in (np.arange(9), np.array([4]))]  # with padding and without
    with torch.no_grad():
        plain = [net.pool(batch) for batch in batches]
        request.getfixturevalue("every_mask")
        for expected, batch in zip(plain, batches, strict=True):
            torch.testing.assert_close(net.pool(batch), expected, rtol=1e-5, atol=1e-5)


def test_learning_rates_in_closed_form():
    assert learning_rates(10, 1.0, 0.0, "linear") == pytest.approx([1 - step / 10 for step in range(10)])
    assert learning_rates(10, 1.0, 0.2, "linear")[:3] == pytest.approx([0.5, 1, 1])
    assert learning_rates(10, 1.0, 0.2, "linear")[-1] == pytest.approx(1 / 8)
    cosine = [(1 + np.cos(np.pi * step / 12)) / 2 for step in range(12)]
    assert learning_rates(12, 1.0, 0.0, "cosine") == pytest.approx(cosine)
    rising = [0.2, 0.4, 0.6, 0.8, 1]
    assert learning_rates(10, 1.0, 0.5, "cosine")[:6] == pytest.approx([*rising, 1])
    assert learning_rates(10, 1.0, 0.5, "constant") == pytest.approx([*rising, 1, 1, 1, 1, 1])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 16), st.integers(0, 9))
def test_buckets_hold_each_row_once(lengths, size, seed):
    batches = buckets(np.array(lengths), size, np.random.default_rng(seed), pool=2)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size


def test_a_proportional_schedule_has_every_example_once_per_epoch():
    steps = schedule(data(), 8, 3, "proportional", np.random.default_rng(0))
    for epoch in range(3):
        for task, e in data().items():
            rows = [row for s in steps if (s.epoch, s.task) == (epoch, task) for row in s.rows]
            assert sorted(rows) == list(range(len(e)))


@pytest.mark.parametrize(
    ("sampling", "epochs", "power"),
    [("sqrt", 1, 0.5), ("sqrt", 4, 0.5), ("annealed", 1, 1), ("annealed", 2, 0.2), ("annealed", 4, 0.2)],
)
def test_drawn_schedules_keep_the_number_of_steps(sampling, epochs, power):
    """And in the last epoch draw a task by this power of its number of batches."""
    texts = {"small": examples(16), "large": examples(640)}
    steps = schedule(texts, 8, epochs, sampling, np.random.default_rng(0))
    assert len(steps) == epochs * 82
    last = np.mean([s.task == "small" for s in steps if s.epoch == epochs - 1])
    assert abs(last - 2**power / (2**power + 80**power)) < 0.1


def test_batches_of_short_texts_fill_a_device():
    texts, cuda = examples(3000, shortest=12, longest=12), Device("cpu", None, *devices.SIZES["cuda"])
    for device, tokens in ((CPU, 768), (Device("cpu", None, *devices.SIZES["cpu"]), 768), (cuda, 32_768)):
        assert len(next(texts.in_length_order(np.arange(3000), device))) == tokens // 12


def test_length_ordered_batches_hold_each_row_once_within_the_budget():
    texts = examples(50)
    rows = np.random.default_rng(0).permutation(50)[:40]
    batches = list(texts.in_length_order(rows, Device("cpu", None, tokens=48)))
    assert sorted(np.concatenate(batches)) == sorted(rows)
    assert all(len(b) * texts.lengths[b].max() <= 48 for b in batches)


def test_batches_of_long_texts_have_enough_examples_until_memory_runs_out():
    texts = examples(50, shortest=14, longest=14)
    batches = texts.in_length_order(np.arange(50), Device("cpu", "bfloat16", tokens=48, fewest=20))
    assert len(next(batches)) == 20
    batches.halve(MemoryError())
    assert [len(batch) for batch in batches] == [10] * 5


@pytest.mark.parametrize("kind", ["bert", "roberta", "gpt2", "albert", "deberta-v2"])
def test_a_compact_vocabulary_trains_to_the_same_weights(tmp_path, monkeypatch, kind):
    compact, full = model(kind), model(kind)
    before = weights(full)
    run(tmp_path, compact)
    monkeypatch.setattr(loop, "compact_vocabulary", lambda model, examples: nullcontext(examples))
    run(tmp_path, full)
    assert list(compact.state_dict()) == list(full.state_dict())
    for name, value in compact.state_dict().items():
        torch.testing.assert_close(value, full.state_dict()[name], rtol=1e-3, atol=2e-5, msg=name)
    name = next(n for n in before if before[n].shape[0] == 97)
    unseen = sorted(set(range(97)) - {t for e in data().values() for t in e.vocabulary()})
    assert unseen and torch.equal(compact.state_dict()[name][unseen], before[name][unseen])
