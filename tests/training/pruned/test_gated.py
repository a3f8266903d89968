"""Training with gates: fixed heads, heads that close in steps, gates that learn; budgets from one run."""

from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.gates.learnt import learnt_gates
from headspec.heads.importance import gate_gradients
from headspec.heads.ranking import top_heads
from headspec.models.head_parameters import head_slices
from headspec.statistics.gates.targets import counts
from headspec.training.loop import Setup, train, trainer
from headspec.training.pruned.gated import Fixed, Learning, Sets, Stepwise, last_kept
from headspec.training.pruned.kept_heads import count_kept, drawn, ranked
from headspec.training.pruned.pruned_run import (
    Plan,
    evaluation,
    finish,
    learn,
    learning_steps,
    starting_model,
)
from support.tiny import CPU, HEADS, LAYERS, by_family
from support.two_tasks import CLASSES, data, model, never, same, weights

SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3)
SETUP = Setup(data(), SETTINGS, 0, CPU)
STEPS = 18  # 5 + 4 batches, twice
SHAPE = (LAYERS, HEADS)
EVERY = np.ones(SHAPE, dtype=bool)
OPEN = np.zeros(LAYERS, dtype=bool)  # no layer whose heads are all kept
KINDS = ["l0", "l0-target", "subset", "subset-hard"]


def learning(kind: str, per_task: bool = False, count: int | None = 5, steps: int = 10) -> Learning:
    sets = Sets(list(CLASSES), per_task)
    gates = [learnt_gates(kind, SHAPE, count, 0.1) for _ in sets.names]
    return Learning(sets, gates, steps, count, 0.1, 0)


def trained(gating, folder, net=None, microbatches: int = 1, until: int = STEPS):
    """A model trained with gates, for some of the steps; and its run."""
    net = net or model()
    with trainer(net, Setup(data(), SETTINGS, 0, CPU, microbatches)) as run:
        run.gating = gating
        run.run(until, never(folder))
    return net, run


# --- fixed heads


def test_open_gates_change_nothing(tmp_path):
    plain = model()
    train(plain, SETUP, never(tmp_path))
    gated, _ = trained(Fixed(Sets(list(CLASSES), False), np.ones((1, *SHAPE), dtype=bool)), tmp_path)
    assert same(plain, gated)


def test_closed_heads_do_not_learn(tmp_path):
    kept = np.ones((1, *SHAPE), dtype=bool)
    kept[0, 1, 2] = kept[0, 2] = False  # one head, and a whole layer
    net = model()
    slices = head_slices(net.gates, "qkvo")
    before = [part.view(part.parameter.detach()).clone() for part in slices]
    trained(Fixed(Sets(list(CLASSES), False), kept), tmp_path, net)
    for part, value in zip(slices, before, strict=True):
        if not (part.heads & kept[0]).any():
            assert torch.equal(part.view(part.parameter.detach()), value)
        elif part.parameter.dim() == 2:
            assert not torch.equal(part.view(part.parameter.detach()), value)


def test_batches_of_a_task_meet_its_own_heads(tmp_path):
    """A head that only task b keeps learns from b's batches alone."""
    sets = Sets(list(CLASSES), per_task=True)
    kept = np.ones((2, *SHAPE), dtype=bool)
    kept[0, 0, 0] = False
    seen = []
    gating = Fixed(sets, kept)
    net = model()
    with trainer(net, SETUP) as run:
        for number, step in enumerate(run.steps):
            gating.begin(run, number)
            seen.append((step.task, bool(net.gates.values[0, 0])))
        net.gates.values = None
    assert {*seen} == {("a", False), ("b", True)}


# --- gates that learn


@pytest.mark.parametrize("kind", by_family())
def test_gates_learn_on_every_architecture(kind, tmp_path):
    net = model(kind)
    shape = (net.gates.layers, net.gates.heads)
    gates = learnt_gates("subset", shape, 5, 0.0)
    gating = Learning(Sets(list(CLASSES), False), [gates], 4, 5, 0.1, 0)
    with trainer(net, SETUP) as run:
        run.gating = gating
        run.run(3, never(tmp_path))
    assert gates.scores.isfinite().all() and (gates.scores != 0).all()


def test_scores_get_the_gradient_of_the_loss(tmp_path):
    """The gradient through the gates of one step, as autograd has it through the whole graph."""
    net, gating = model(), learning("l0", steps=10)
    gates = gating.gates[0]
    with trainer(net, SETUP) as run:
        step = run.steps[0]
        net.eval()  # no dropout
        batch = run.examples[step.task].batch(step.rows)
        (leaf,) = gating.begin(run, 0)
        index, values, _, cost = gating.drawn
        net.gates.values = values
        loss = net.losses(step.task, net.pool(batch), batch.labels).mean() + cost
        (expected,) = torch.autograd.grad(loss, gates.scores, retain_graph=True)
        net.gates.values = leaf
        net.losses(step.task, net.pool(batch), batch.labels).mean().backward()
        net.gates.values = None
    found = []
    gating.optimizers[0].step = lambda: found.append(gates.scores.grad.clone())
    gating.end()
    assert torch.allclose(found[0], expected / max(1.0, float(expected.norm())), atol=1e-6)
    assert expected.abs().max() > 1e-4


def test_microbatches_give_the_same_gates(tmp_path):
    courses = []
    for microbatches in (1, 2):
        gating = learning("l0")
        trained(gating, tmp_path, microbatches=microbatches, until=6)
        courses.append(gating.gates[0].scores.detach())
    assert torch.allclose(*courses, atol=1e-4)
    assert (courses[0] != 3).any()


@pytest.mark.parametrize("kind", KINDS)
def test_a_resumed_run_ends_in_the_same_bytes(kind, tmp_path):
    whole, run = trained(learning(kind), tmp_path)
    frame = run.gating.frame(STEPS, EVERY)
    for stop in (3, 10, 14):
        gating = learning(kind)
        _, first = trained(gating, tmp_path, until=stop)
        state = first.state()
        net = model()
        with trainer(net, SETUP) as second:
            second.gating = learning(kind)
            second.restore(state)
            second.run(STEPS, never(tmp_path))
        assert same(whole, net), stop
        assert second.gating.frame(STEPS, EVERY).equals(frame), stop


@pytest.mark.parametrize("kind", KINDS)
def test_the_number_of_kept_heads_is_exact_in_each_set(kind, tmp_path):
    gating = learning(kind, per_task=True)
    trained(gating, tmp_path)
    assert gating.kept.sum(axis=(1, 2)).tolist() == [5, 5]
    frame = gating.frame(STEPS, EVERY)
    assert np.array_equal(last_kept(frame, gating.sets), gating.kept)
    last = frame[frame["step"] == STEPS]
    assert {*frame["task"]} == {"a", "b"} and len(last) == 2 * LAYERS * HEADS
    assert sorted({*frame["step"]}) == [*range(10), STEPS]
    for index, (_, of_set) in enumerate(last.groupby("task")):
        scores = of_set.pivot(index="layer", columns="head", values="score").to_numpy()
        assert np.array_equal(scores, gating.gates[index].scores.detach().double().numpy())
        assert np.array_equal(top_heads(scores, 5), gating.kept[index])


def test_sets_of_tasks_learn_apart(tmp_path):
    """Until a step of its own task, a set does not move."""
    gating = learning("l0", per_task=True)
    with trainer(model(), SETUP) as run:
        run.gating = gating
        first = run.steps[0].task
        other = next(i for i, step in enumerate(run.steps) if step.task != first)
        run.run(other, never(tmp_path))
    of_first, of_other = (gating.gates[gating.sets.index(task)] for task in (first, *{*CLASSES} - {first}))
    assert (of_first.scores != 3).any() and (of_other.scores == 3).all()


def test_heads_that_were_kept_are_fixed_after_learning(tmp_path):
    gating = learning("subset")
    net = model()
    with trainer(net, SETUP) as run:
        run.gating = gating
        run.run(10, never(tmp_path))
        kept = gating.kept
        assert gating.begin(run, 10) == []
        assert np.array_equal(net.gates.values.numpy().astype(bool), kept[0])
        run.run(STEPS, never(tmp_path))
    assert np.array_equal(gating.kept, kept)


# --- heads that close in steps


def test_heads_close_in_equal_steps_by_importance_computed_again(tmp_path):
    """The first step closes the least important heads; each later one the least important of the rest."""
    sets = Sets(list(CLASSES), per_task=True)
    gating = Stepwise(sets, EVERY, 3, [0, 4, 8], samples=10, seed=0)
    net = model()
    scores = np.abs(gate_gradients(net, "a", data()["a"], np.arange(40), CPU)).mean(axis=0)
    numbers, before = [], np.ones((2, *SHAPE), dtype=bool)
    with trainer(net, SETUP) as run:
        gating.samples = 40
        run.gating = gating
        for until in (1, 5, 9, STEPS):
            run.run(until, never(tmp_path))
            assert (gating.kept <= before).all()
            before = gating.kept
            numbers.append(before.sum(axis=(1, 2)).tolist())
            if until == 1:
                closed = scores[~before[0]]
                assert closed.max() <= scores[before[0]].min()
    assert numbers == [[9, 9], [6, 6], [3, 3], [3, 3]]


# --- budgets


def plan(method: str, count: int | None, per_task: bool = False, examples=None) -> tuple[Plan, Training]:
    settings, examples = Gates(epochs=2, rescorings=3), examples or data()
    epochs, steps = learning_steps(examples, SETTINGS, settings, PRUNING_METHODS[method].start)
    training = SETTINGS.model_copy(update={"epochs": epochs})
    sets = Sets(list(CLASSES), per_task)
    return Plan(PRUNING_METHODS[method], settings, 20, sets, EVERY, OPEN, count, steps, 0), training


MAPS = {task: np.random.default_rng(i).random(SHAPE) for i, task in enumerate(CLASSES)}


CHOOSING = [name for name, each in PRUNING_METHODS.items() if each.chosen not in ("all", "copied")]


@pytest.mark.parametrize("per_task", [False, True])
@pytest.mark.parametrize("method", CHOOSING)
def test_every_pruning_method_ends_with_the_number_of_heads(method, per_task, tmp_path):
    planned, training = plan(method, 5, per_task)
    kept, frame = finish(
        model(), Setup(data(), training, 0, CPU), planned.gating(MAPS, None), None, never(tmp_path)
    )
    assert kept.sum(axis=(1, 2)).tolist() == [5] * (2 if per_task else 1)
    assert frame["step"].max() == 9 * training.epochs


def test_all_ways_take_the_same_steps(tmp_path):
    """Further epochs from a trained run; the epochs of training as well where it starts before."""
    for method, settings in PRUNING_METHODS.items():
        epochs, steps = learning_steps(data(), SETTINGS, Gates(epochs=4, learning=0.25), settings.start)
        before = 0 if settings.start == "trained" else 2
        assert (epochs, steps) == (4 + before, 9 * (1 + before)), method


def test_gates_that_learn_once_end_as_if_learnt_for_a_number(tmp_path):
    """`learn`, then `finish` with a number of heads, is one run with that number."""
    planned, training = plan("l0", None)
    open_ended = planned.gating(None, None)
    state = learn(model(), Setup(data(), training, 0, CPU), open_ended, never(tmp_path))
    planned, _ = plan("l0", 4)
    net, at_once = model(), model()
    kept, frame = finish(
        net, Setup(data(), training, 0, CPU), planned.gating(None, None), state, never(tmp_path)
    )
    again, expected = finish(
        at_once, Setup(data(), training, 0, CPU), planned.gating(None, None), None, never(tmp_path)
    )
    assert np.array_equal(kept, again) and kept.sum() == 4
    assert same(net, at_once)
    assert frame.equals(expected)


def test_heads_of_another_way_are_kept():
    planned, _ = plan("fresh", 4)
    copied = ranked(planned.sets, MAPS, 4)
    assert np.array_equal(planned.gating(None, copied).kept, copied)


def test_ranked_heads_of_tasks_together_and_apart():
    tasks = list(CLASSES)
    apart = ranked(Sets(tasks, per_task=True), MAPS, 3)
    for of_set, task in zip(apart, tasks, strict=True):
        assert MAPS[task][of_set].min() > MAPS[task][~of_set].max()
    together = sum(MAPS[task] / MAPS[task].mean() for task in tasks)
    (shared,) = ranked(Sets(tasks, per_task=False), MAPS, 3)
    assert together[shared].min() > together[~shared].max()


def test_random_heads_by_layer_follow_the_ranking():
    sets = Sets(list(CLASSES), per_task=True)
    by_layer = drawn(sets, MAPS, 5, True, 0)
    assert np.array_equal(by_layer.sum(axis=2), ranked(sets, MAPS, 5).sum(axis=2))
    anywhere = [drawn(sets, MAPS, 5, False, seed) for seed in range(20)]
    assert {int(kept.sum()) for kept in anywhere} == {10}
    assert len({kept.tobytes() for kept in anywhere}) == 20


@pytest.mark.parametrize("by_layer", [False, True])
def test_random_heads_of_other_tasks_are_others(by_layer):
    """Else two tasks with the same random heads would seem to need the same ones."""
    same = dict.fromkeys(CLASSES, np.arange(24.0).reshape(4, 6))
    of_runs = [drawn(Sets([task], per_task=False), same, 9, by_layer, 0) for task in CLASSES]
    assert len({kept.tobytes() for kept in of_runs}) == len(CLASSES)


@pytest.mark.parametrize(("fraction", "heads", "expected"), [(0.3, 72, 22), (0.3, 10, 3), (0.1, 144, 15)])
def test_kept_heads_are_those_that_are_not_pruned(fraction, heads, expected):
    assert count_kept(fraction, heads) == expected


def test_evaluation_closes_the_heads_that_a_set_does_not_keep():
    sets = Sets(list(CLASSES), per_task=True)
    net, examples = model(), data()
    rows = {task: np.arange(0, len(of_task), 2) for task, of_task in examples.items()}
    kept = np.ones((2, *SHAPE), dtype=bool)
    kept[1] = False
    frame = evaluation(net, examples, rows, sets, kept, CPU)
    net.gates.values = torch.zeros(SHAPE)
    batch = examples["b"].batch(rows["b"])
    closed = net.predictions("b", net.pool(batch)).detach().numpy()
    net.gates.values = None
    batch = examples["a"].batch(rows["a"])
    plain = net.predictions("a", net.pool(batch)).detach().numpy()
    for task, expected in (("a", plain), ("b", closed)):
        of_task = frame[frame["task"] == task]
        assert np.array_equal(of_task["example"], rows[task])
        assert np.array_equal(of_task["prediction"], expected)


# --- what is said


@pytest.mark.parametrize(
    ("score", "said"),
    [(-9.0, "0 of 12 heads are open; expected a smaller"), (9.0, "12 of 12 heads are open; expected a larg")],
)
def test_a_penalty_that_leaves_no_head_or_all(score, said, caplog):
    gating = learning("l0", count=None)
    with torch.no_grad():
        gating.gates[0].scores.fill_(score)
    gating.warn()
    assert said in caplog.text


def test_a_target_that_is_missed_is_said(caplog):
    gating = learning("l0-target", per_task=True)
    gating.warn()
    assert "11.7 heads are expected to be open for task 'a', the target is 5" in caplog.text
    caplog.clear()
    for kind in ("subset", "l0"):
        learning(kind).warn()
    assert caplog.text == ""


@pytest.mark.parametrize("per_task", [False, True])
def test_a_target_that_few_steps_miss_is_said_and_counted(per_task, tmp_path, caplog):
    """In the log of training, and by the numbers of the table `budgets`."""
    planned, training = plan("l0-target", 2, per_task)
    _, frame = finish(
        model(), Setup(data(), training, 0, CPU), planned.gating(None, None), None, never(tmp_path)
    )
    assert caplog.text.count("heads are expected to be open") == len(planned.sets.names)
    found = counts(frame)
    assert found.heads == 2 and found.open_heads > 8 and found.missed == 1


def test_weights_begin_as_the_way_says():
    net = model()
    job = SimpleNamespace(  # the interface of ModelStage
        seed=3,
        beams={},
        trained=model,
        pretrained=lambda: (model().encoder, "mean"),
        tokenizer=lambda classes: None,
    )
    pretrained = starting_model(job, PRUNING_METHODS["dynamic"], CLASSES, True)
    assert same(net.encoder, pretrained.encoder)
    fresh, again = (starting_model(job, PRUNING_METHODS["fresh"], CLASSES, True) for _ in range(2))
    assert same(fresh, again)
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(weights(fresh.encoder)[name], weights(net.encoder)[name])
    static = starting_model(job, PRUNING_METHODS["static"], CLASSES, True)
    assert [p.requires_grad for p in static.classifiers.parameters()] == [False] * 4


@pytest.mark.parametrize("method", ["l0", "subset"])
def test_gates_learn_on_a_frozen_encoder(method, tmp_path):
    """It stays as it is, in what learns and in what follows; classifiers learn."""
    job = SimpleNamespace(seed=3, trained=model)
    net, before = starting_model(job, PRUNING_METHODS[method], CLASSES, False), weights(model())
    planned, training = plan(method, 5, per_task=True)
    state = learn(net, Setup(data(), training, 0, CPU), planned.gating(None, None), never(tmp_path))
    _, frame = finish(
        net, Setup(data(), training, 0, CPU), planned.gating(None, None), state, never(tmp_path)
    )
    changed = {
        name.partition(".")[0] for name, value in weights(net).items() if (value != before[name]).any()
    }
    assert changed == {"classifiers"}
    assert frame[frame["step"] == frame["step"].max()].groupby("task")["score"].nunique().min() > 1
