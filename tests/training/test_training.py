"""Training: schedules, learning, resuming, frozen encoders."""

from contextlib import nullcontext

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.masking_utils import ALL_MASK_ATTENTION_FUNCTIONS, AttentionMaskInterface

from headspec import tables
from headspec.config.sections.training import Training
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask
from headspec.heads.pruning import predictions
from headspec.models import devices
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.internals.representations import REPRESENTATIONS, representations, vectors
from headspec.models.multitask import MultiTask
from headspec.training import loop
from headspec.training.adapting import adapt
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train, trainer
from headspec.training.schedule import buckets, learning_rates, schedule
from headspec.training.updates import clip
from support.tiny import CPU, by_family, encoder, examples, pooling
from support.two_tasks import dies_after, same, weights

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}


def model(kind: str = "bert", **settings) -> MultiTask:
    built = encoder(kind, **settings)
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict[str, Examples]:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2), "r": examples(20, 5, 3)}


def run(folder, net: MultiTask, seconds=1e9, method="tuned", fingerprint="f", **settings) -> pd.DataFrame:
    torch.set_num_threads(1)
    if method == "lora":
        adapt(net.encoder, 4, "all", 7, CPU)
    settings = Training(**({"batch_size": 8, "epochs": 2, "learning_rate": 1e-3} | settings))
    checkpoint = Checkpoint(folder / "checkpoint.pt", fingerprint, seconds)
    fixed = None
    if method == "frozen":
        fixed = {t: e.vectors(representations([(t, net)], e, CPU)) for t, e in data().items()}
    return train(net, Setup(data(), settings, 7, CPU, features=fixed), checkpoint)


@pytest.mark.parametrize("method", ["tuned", "frozen", "lora"])
def test_resumed_training_gives_the_same_weights(tmp_path, method):
    undisturbed = model()
    history = run(tmp_path, undisturbed, method=method)

    with dies_after(9):
        run(tmp_path, model(), seconds=0, method=method)
    resumed = model()
    again = run(tmp_path, resumed, method=method)
    columns = ["step", "epoch", "task", "loss", "learning_rate"]
    pd.testing.assert_frame_equal(history[columns], again[columns])
    assert same(undisturbed, resumed)


def test_a_checkpoint_of_another_run_is_not_continued(tmp_path):
    checkpoint = Checkpoint(tmp_path / "c.pt", "one", 0)
    checkpoint.save({"history": []})
    assert checkpoint.load() is not None
    assert Checkpoint(tmp_path / "c.pt", "other", 0).load() is None


@pytest.mark.slow
def test_training_learns(tmp_path):
    """Labels that depend on the first token are learnt."""
    rng = np.random.default_rng(0)
    ids = [rng.integers(5, 90, rng.integers(4, 9)).tolist() for _ in range(120)]
    labels = np.array([float(i[0] > 47) for i in ids])
    frame = pd.DataFrame(
        {"example": range(120), "label": labels, "input_ids": ids, "token_type_ids": [None] * 120}
    )
    net = MultiTask(
        encoder("bert", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0), "first", {"a": ["l", "h"]}
    )
    settings = Training(batch_size=8, epochs=12, learning_rate=2e-3)
    checkpoint = Checkpoint(tmp_path / "c.pt", "", 1e9)
    history = train(net, Setup({"a": Examples(frame)}, settings, 0, CPU), checkpoint)
    assert history["loss"].tail(15).mean() < 0.5 * history["loss"].head(15).mean()


@pytest.fixture
def little_memory(monkeypatch):
    """From the 9th batch on, batches of more than 3 examples run out of memory."""
    pool, sizes = MultiTask.pool, []

    def limited(self, batch):
        sizes.append(len(batch.rows))
        if len(sizes) > 8 and sizes[-1] > 3:
            raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 20.00 MiB")
        return pool(self, batch)

    monkeypatch.setattr(MultiTask, "pool", limited)
    return sizes


def test_running_out_of_memory_changes_no_numbers(tmp_path, request):
    """With dropout; the same batches are processed in microbatches."""
    plain, limited = model(), model()
    history = run(tmp_path, plain)
    sizes = request.getfixturevalue("little_memory")
    again = run(tmp_path, limited)
    assert max(sizes[:8]) == 8 and sum(size > 3 for size in sizes[8:]) == 2 and max(sizes[-20:]) == 2
    assert again["loss"].to_numpy() == pytest.approx(history["loss"].to_numpy(), rel=1e-4)
    for name, value in weights(plain).items():
        torch.testing.assert_close(limited.state_dict()[name], value, rtol=2e-3, atol=1e-4, msg=name)


def test_importance_and_pruning_take_smaller_batches_when_memory_runs_out(request):
    net, data = model().eval(), examples(40)
    rows, masks = np.arange(40), [Mask("none", None, None, None, np.zeros((3, 4), dtype=bool))]
    gradients = gate_gradients(net, "a", data, rows, CPU)
    predicted = predictions(net, {"a": data}, masks, CPU)["a"]
    sizes = request.getfixturevalue("little_memory")
    sizes += [0] * 8
    np.testing.assert_allclose(gate_gradients(net, "a", data, rows, CPU), gradients, rtol=1e-4, atol=1e-6)
    assert max(sizes[8:]) == 40
    np.testing.assert_array_equal(predictions(net, {"a": data}, masks, CPU)["a"], predicted)


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


def test_frozen_training_changes_only_the_classifiers(tmp_path):
    net = model()
    before = weights(net)
    run(tmp_path, net, method="frozen")
    for name, value in net.state_dict().items():
        assert torch.equal(value, before[name]) == name.startswith("encoder."), name


def test_history_has_a_row_per_step(tmp_path):
    history = run(tmp_path, model(), sampling="annealed")
    assert history["step"].tolist() == list(range(2 * (5 + 4 + 3)))
    assert history["learning_rate"].is_monotonic_decreasing
    assert (history[["examples_per_second", "memory_mb"]] > 0).all(axis=None)


@pytest.mark.parametrize("method", ["tuned", "frozen", "lora"])
def test_without_clipping_gradients_are_unchanged(tmp_path, method):
    models = {clip: model() for clip in (None, 1e30, 0.01)}
    losses = {clip: run(tmp_path, net, method=method, clip=clip)["loss"] for clip, net in models.items()}
    assert losses[None].equals(losses[1e30]) and not losses[None].equals(losses[0.01])
    assert same(models[None], models[1e30])


def test_frozen_training_learns_from_the_features(tmp_path):
    """The loss of the first step is that of the features; other features give another loss."""
    settings = Training(batch_size=8, epochs=1, learning_rate=1e-3)
    net = model("bert", classifier_dropout=0.0)
    fixed = {t: e.vectors(representations([(t, net)], e, CPU)) for t, e in data().items()}
    with trainer(net, Setup(data(), settings, 7, CPU, features=fixed)) as first:
        step = first.steps[0]
        with torch.no_grad():
            batch = data()[step.task].batch(step.rows)
            expected = net.losses(step.task, net.eval().pool(batch), batch.labels).mean().item()
        net.train()
        first.run(1, Checkpoint(tmp_path / "c.pt", "", 1e9))
    assert first.history[0][3] == pytest.approx(expected, rel=1e-5)
    other = {task: 2 * values for task, values in fixed.items()}
    with trainer(
        model("bert", classifier_dropout=0.0), Setup(data(), settings, 7, CPU, features=other)
    ) as second:
        second.run(1, Checkpoint(tmp_path / "c.pt", "", 1e9))
    assert second.history[0][3] != pytest.approx(expected, rel=1e-3)


def test_features_survive_their_table_bit_by_bit(tmp_path):
    net, texts = model(), examples(40, 2, 1)
    direct = vectors(net, "a", texts, np.arange(40), CPU)
    tables.write(tmp_path / "f.parquet", REPRESENTATIONS, representations([("a", net)], texts, CPU), {})
    read = texts.vectors(tables.read(tmp_path / "f.parquet"))
    assert read.dtype == np.float32 and np.array_equal(read, direct)


def test_losses_fetched_late_change_nothing(tmp_path):
    """A GPU's losses are fetched in blocks, and when a checkpoint is due; no row is lost."""
    settings, histories, models = Training(batch_size=8, epochs=2, learning_rate=1e-3), [], []
    for sync_interval in (0.0, 1e9):
        models.append(model())
        with trainer(models[-1], Setup(data(), settings, 7, CPU)) as training:
            training.sync_interval = sync_interval
            training.run(9, Checkpoint(tmp_path / "c.pt", "", 1e9))
            training.run(len(training.steps), Checkpoint(tmp_path / "c.pt", "", 1e9))
            histories.append(training.frame())
    columns = ["step", "epoch", "task", "loss", "learning_rate"]
    pd.testing.assert_frame_equal(histories[0][columns], histories[1][columns])
    assert (
        histories[1]["examples_per_second"].nunique() == 2 and (histories[1]["examples_per_second"] > 0).all()
    )
    assert same(*models)


@pytest.fixture
def every_mask():
    """Attention masks are always built, as on a GPU."""
    names = ("sdpa", "eager")
    before = {name: ALL_MASK_ATTENTION_FUNCTIONS[name] for name in names}
    devices.always_mask()
    yield
    for name in names:
        AttentionMaskInterface.register(name, before[name])


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
    rows = [np.arange(9), np.array([4])]  # with padding and without
    with torch.no_grad():
        plain = [net.pool(texts.batch(r)) for r in rows]
        request.getfixturevalue("every_mask")
        for expected, r in zip(plain, rows, strict=True):
            torch.testing.assert_close(net.pool(texts.batch(r)), expected, rtol=1e-5, atol=1e-5)


def test_learning_rates_in_closed_form():
    assert learning_rates(10, 1.0, 0.0, "linear") == pytest.approx([1 - step / 10 for step in range(10)])
    assert learning_rates(10, 1.0, 0.2, "linear")[:3] == pytest.approx([0.5, 1, 1])
    assert learning_rates(10, 1.0, 0.2, "linear")[-1] == pytest.approx(1 / 8)
    cosine = learning_rates(12, 1.0, 0.0, "cosine")
    assert sorted(cosine, reverse=True) == cosine and cosine[6] == pytest.approx(0.5)
    assert cosine[0] == 1 and sum(cosine) == pytest.approx(6.5)
    rising = [0.2, 0.4, 0.6, 0.8, 1]
    assert learning_rates(10, 1.0, 0.5, "cosine")[:6] == pytest.approx([*rising, 1])
    assert learning_rates(10, 1.0, 0.5, "constant") == pytest.approx([*rising, 1, 1, 1, 1, 1])


@given(st.lists(st.integers(1, 60), min_size=1, max_size=200), st.integers(1, 16), st.integers(0, 9))
def test_buckets_hold_each_row_once(lengths, size, seed):
    batches = buckets(np.array(lengths), size, np.random.default_rng(seed), pool=2)
    assert sorted(np.concatenate(batches)) == list(range(len(lengths)))
    assert max(map(len, batches)) <= size


def test_a_proportional_schedule_has_every_example_once_per_epoch():
    texts = data()
    steps = schedule(texts, 8, 3, "proportional", np.random.default_rng(0))
    for epoch in range(3):
        for task, e in texts.items():
            rows = [row for s in steps if (s.epoch, s.task) == (epoch, task) for row in s.rows]
            assert sorted(rows) == list(range(len(e)))


@pytest.mark.parametrize("epochs", [1, 2, 4])
@pytest.mark.parametrize("sampling", ["sqrt", "annealed"])
def test_drawn_schedules_keep_the_number_of_steps(sampling, epochs):
    texts = {"small": examples(16), "large": examples(640)}
    steps = schedule(texts, 8, epochs, sampling, np.random.default_rng(0))
    assert len(steps) == epochs * 82
    share = np.array([s.task == "small" for s in steps])
    last = share[[s.epoch == epochs - 1 for s in steps]].mean()
    proportional, root = 2 / 82, 2**0.5 / (2**0.5 + 80**0.5)
    if sampling == "sqrt":
        expected = root
    elif epochs == 1:
        expected = proportional  # a = 1 in the only epoch
    else:
        expected = 2**0.2 / (2**0.2 + 80**0.2)
    assert abs(last - expected) < 0.1


def test_saved_models_load_to_the_same_predictions(tmp_path):
    for kind in ("bert", "gpt2", "albert", "llama"):
        net = model(kind).eval()
        net.save(tmp_path / kind)
        again = MultiTask.load(tmp_path / kind)
        batch = data()["b"].batch(np.arange(9))
        with torch.no_grad():
            before, after = (m.logits("b", m.pool(batch)) for m in (net, again))
        assert torch.equal(before, after)


def test_batches_of_short_texts_fill_a_device():
    texts = examples(3000, shortest=12, longest=12)
    sizes = {
        device: len(next(texts.in_length_order(np.arange(3000), device)))
        for device in (CPU, *(Device("cpu", None, *devices.SIZES[name]) for name in ("cpu", "cuda")))
    }
    assert list(sizes.values()) == [768 // 12, 32_768 // 12]  # the first two are the same device
    short = examples(5000, shortest=3, longest=3).in_length_order(np.arange(5000), CPU)
    assert len(next(short)) == 768 // 3


def test_length_ordered_batches_hold_each_row_once_within_the_budget():
    texts = examples(50)
    rows = np.random.default_rng(0).permutation(50)[:40]
    batches = list(texts.in_length_order(rows, Device("cpu", None, tokens=48)))
    assert sorted(np.concatenate(batches)) == sorted(rows)
    assert all(len(b) * texts.lengths[b].max() <= 48 for b in batches)


def test_batches_of_long_texts_have_enough_examples_until_memory_runs_out():
    texts, rows = examples(50, shortest=14, longest=14), np.arange(50)
    device = Device("cpu", "bfloat16", tokens=48, fewest=20)
    assert [len(batch) for batch in texts.in_length_order(rows, device)] == [20, 20, 10]
    batches = texts.in_length_order(rows, device)
    next(batches)
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
