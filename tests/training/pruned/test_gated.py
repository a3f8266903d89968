"""Training with gates: fixed heads, heads that close in steps, gates that learn; budgets from one run."""

import itertools
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.sections.gates import Gates
from headspec.heads.importance import gate_gradients
from headspec.heads.ranking import top_heads
from headspec.models.attention.head_parameters import head_slices
from headspec.statistics.budgets import counts
from headspec.training.gated import Fixed, Learning, Sets, Stepwise, last_kept
from headspec.training.learnt_gates import learnt_gates
from headspec.training.loop import Setup, train, trainer
from headspec.training.pruned_run import (
    Plan,
    count_kept,
    evaluation,
    finish,
    first_of_ranking,
    learn,
    learning_steps,
    random_kept,
    starting_model,
)
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS, by_family
from support.two_tasks import CLASSES, SETTINGS, data, model, never, same, setup, weights

SETUP = setup()
STEPS = 18
SHAPE = (LAYERS, HEADS)
EVERY = np.ones(SHAPE, dtype=bool)
TOGETHER, APART = (Sets(list(CLASSES), per_task) for per_task in (False, True))
KINDS = ["l0", "l0-target", "soft", "subset", "subset-hard"]


def learning(kind: str, sets: Sets = TOGETHER, count: int | None = 5) -> Learning:
    gates = [learnt_gates(kind, SHAPE, count, 0.1) for _ in sets.names]
    return Learning(sets, gates, 10, count, 0.1, 0)


def trained(gating, folder, until: int = STEPS, microbatches: int = 1):
    """A model trained with gates, for some of the steps; and its run."""
    net = model()
    with trainer(net, replace(SETUP, microbatches=microbatches)) as run:
        run.gating = gating
        run.run(until, never(folder))
    return net, run


# --- fixed heads


def test_open_gates_change_nothing(tmp_path):
    plain = model()
    train(plain, SETUP, never(tmp_path))
    assert same(plain, trained(Fixed(TOGETHER, EVERY[None]), tmp_path)[0])


def test_closed_heads_do_not_learn_and_batches_of_a_task_meet_its_own(tmp_path):
    kept = np.stack([EVERY, EVERY])
    kept[:, 1, 2] = kept[:, 2] = False  # one head, and a whole layer
    kept[0, 0, 0] = False  # which only task b keeps
    net, gating, seen = model(), Fixed(APART, kept), set()
    slices = head_slices(net.gates, "qkvo")
    before = [part.view(part.parameter.detach()).clone() for part in slices]
    with trainer(net, SETUP) as run:
        for number, step in enumerate(run.steps):
            gating.begin(run, number)
            seen.add((step.task, bool(net.gates.values[0, 0])))
        run.gating = gating
        run.run(STEPS, never(tmp_path))
    assert seen == {("a", False), ("b", True)}
    for part, value in zip(slices, before, strict=True):
        unchanged = torch.equal(part.view(part.parameter.detach()), value)
        if not (part.heads & kept.any(axis=0)).any():
            assert unchanged
        elif part.parameter.dim() == 2:
            assert not unchanged


# --- gates that learn


@pytest.mark.parametrize("kind", by_family())
def test_gates_learn_on_every_architecture(kind, tmp_path):
    net = model(kind)
    gates = learnt_gates("subset", (net.gates.layers, net.gates.heads), 5, 0.0)
    with trainer(net, SETUP) as run:
        run.gating = Learning(TOGETHER, [gates], 4, 5, 0.1, 0)
        run.run(3, never(tmp_path))
    assert gates.scores.isfinite().all() and (gates.scores != 0).all()


def test_scores_get_the_gradient_of_the_loss():
    """The gradient through the gates of one step, as autograd has it through the whole graph."""
    net, gating = model(), learning("l0")
    gates = gating.gates[0]
    with trainer(net, SETUP) as run:
        step = run.steps[0]
        net.eval()  # no dropout
        batch = run.examples[step.task].batch(step.rows)
        (leaf,) = gating.begin(run, 0)
        _, values, _, cost = gating.drawn
        net.gates.values = values
        loss = net.losses(step.task, net.pool(batch), batch.labels).mean() + cost
        (expected,) = torch.autograd.grad(loss, gates.scores, retain_graph=True)
        net.gates.values = leaf
        net.losses(step.task, net.pool(batch), batch.labels).mean().backward()
    found = []
    gating.optimizers[0].step = lambda: found.append(gates.scores.grad.clone())
    gating.end()
    assert torch.allclose(found[0], expected / max(1.0, float(expected.norm())), atol=1e-6)
    assert expected.abs().max() > 1e-4


def test_microbatches_give_the_same_gates(tmp_path):
    whole, parts = learning("l0"), learning("l0")
    for gating, microbatches in ((whole, 1), (parts, 2)):
        trained(gating, tmp_path, 6, microbatches)
    assert torch.allclose(whole.gates[0].scores, parts.gates[0].scores, atol=1e-4)
    assert (whole.gates[0].scores != 3).any()


#: steps after which a run stops: while gates learn, when they have learnt, and after that
STOPPED = {"l0": 3, "soft": 10, "l0-target": 10, "subset": 14, "subset-hard": 3}


@pytest.mark.parametrize(
    ("kind", "stop"), cases(itertools.product(KINDS, (3, 10, 14)), STOPPED.items().__contains__)
)
def test_a_resumed_run_ends_in_the_same_bytes(kind, stop, tmp_path):
    whole, run = trained(learning(kind), tmp_path)
    _, first = trained(learning(kind), tmp_path, stop)
    state, net = first.state(), model()
    with trainer(net, SETUP) as second:
        second.gating = learning(kind)
        second.restore(state)
        second.run(STEPS, never(tmp_path))
    assert same(whole, net)
    assert second.gating.frame(STEPS, EVERY).equals(run.gating.frame(STEPS, EVERY))


@pytest.mark.parametrize("kind", KINDS)
def test_sets_learn_apart_and_keep_the_number_of_heads_that_they_have_learnt(kind, tmp_path):
    """Until a step of its own task, a set does not move; after learning, the kept heads are fixed."""
    gating, net = learning(kind, APART), model()
    before = [gates.scores.detach().clone() for gates in gating.gates]
    with trainer(net, SETUP) as run:
        run.gating = gating
        tasks = [step.task for step in run.steps]
        other = 1 - APART.index(tasks[0])
        run.run(tasks.index(APART.all[other]), never(tmp_path))
        assert torch.equal(gating.gates[other].scores, before[other])
        run.run(10, never(tmp_path))
        assert all((gates.scores != old).any() for gates, old in zip(gating.gates, before, strict=True))
        kept = gating.kept
        assert gating.begin(run, 10) == []
        of_task = kept[APART.index(tasks[10])]
        assert np.array_equal(net.gates.values.numpy().astype(bool), of_task)
        run.run(STEPS, never(tmp_path))
    assert kept.sum(axis=(1, 2)).tolist() == [5, 5]
    frame = gating.frame(STEPS, EVERY)
    assert np.array_equal(last_kept(frame, APART), kept) and np.array_equal(gating.kept, kept)
    last = frame[frame["step"] == STEPS]
    assert {*frame["task"]} == {"a", "b"} and len(last) == 2 * LAYERS * HEADS
    assert sorted({*frame["step"]}) == [*range(10), STEPS]
    for index, (_, of_set) in enumerate(last.groupby("task")):
        scores = of_set.pivot(index="layer", columns="head", values="score").to_numpy()
        assert np.array_equal(scores, gating.gates[index].scores.detach().double().numpy())
        assert np.array_equal(top_heads(scores, 5), kept[index])


# --- heads that close in steps


def test_heads_close_in_equal_steps_by_importance_computed_again(tmp_path):
    """The first step closes the least important heads; each later one the least important of the rest."""
    gating, net = Stepwise(APART, EVERY, 3, [0, 4, 8], samples=40, seed=0), model()
    scores = np.abs(gate_gradients(net, "a", data()["a"], np.arange(40), CPU)).mean(axis=0)
    numbers, before = [], np.stack([EVERY, EVERY])
    with trainer(net, SETUP) as run:
        run.gating = gating
        for until in (1, 5, 9, STEPS):
            run.run(until, never(tmp_path))
            assert (gating.kept <= before).all()
            before = gating.kept
            numbers.append(before.sum(axis=(1, 2)).tolist())
            if until == 1:
                assert scores[~before[0]].max() <= scores[before[0]].min()
    assert numbers == [[9, 9], [6, 6], [3, 3], [3, 3]]


# --- budgets


MAPS = {task: np.random.default_rng(i).random(SHAPE) for i, task in enumerate(CLASSES)}
CHOOSING = [name for name, each in PRUNING_METHODS.items() if each.chosen not in ("all", "copied")]


def plan(method: str, count: int | None, sets: Sets = TOGETHER) -> tuple[Plan, Setup]:
    settings, none = Gates(epochs=2, rescorings=3), np.zeros(LAYERS, dtype=bool)
    epochs, steps = learning_steps(data(), SETTINGS, settings, PRUNING_METHODS[method].start)
    plan = Plan(PRUNING_METHODS[method], settings, 20, sets, EVERY, none, count, steps, 0)
    return plan, setup(epochs=epochs)


def finished(folder, method: str, count: int, sets: Sets = TOGETHER, net=None, state=None):
    """A model after a pruned run, the heads that it keeps, and the table of its gates."""
    net, (planned, run) = net or model(), plan(method, count, sets)
    return net, *finish(net, run, planned.gating(MAPS, None), state, never(folder))


@pytest.mark.parametrize("sets", cases([TOGETHER, APART], APART.__eq__), ids=["together", "apart"])
@pytest.mark.parametrize("method", CHOOSING)
def test_every_pruning_method_ends_with_the_number_of_heads(method, sets, tmp_path):
    _, kept, frame = finished(tmp_path, method, 5, sets)
    assert kept.sum(axis=(1, 2)).tolist() == [5] * len(sets.names)
    assert frame["step"].max() == 9 * plan(method, 5)[1].settings.epochs


def test_all_methods_take_the_same_steps():
    """Further epochs from a trained run; the epochs of training as well where it starts before."""
    for method, settings in PRUNING_METHODS.items():
        before = 0 if settings.start == "trained" else 2
        taken = learning_steps(data(), SETTINGS, Gates(epochs=4, learning=0.25), settings.start)
        assert taken == (4 + before, 9 * (1 + before)), method


def test_gates_that_learn_once_end_as_if_learnt_for_a_number(tmp_path):
    """`learn`, then `finish` with a number of heads, is one run with that number."""
    planned, run = plan("l0", None)
    state = learn(model(), run, planned.gating(None, None), never(tmp_path))
    net, kept, frame = finished(tmp_path, "l0", 4, state=state)
    at_once, again, expected = finished(tmp_path, "l0", 4)
    assert np.array_equal(kept, again) and kept.sum() == 4
    assert same(net, at_once)
    assert frame.equals(expected)


def test_heads_of_another_method_are_kept():
    copied = first_of_ranking(TOGETHER, MAPS, 4)
    assert np.array_equal(plan("fresh", 4)[0].gating(None, copied).kept, copied)


def test_ranked_heads_of_tasks_together_and_apart():
    for kept, task in zip(first_of_ranking(APART, MAPS, 3), CLASSES, strict=True):
        assert MAPS[task][kept].min() > MAPS[task][~kept].max()
    together = sum(scores / scores.mean() for scores in MAPS.values())
    (shared,) = first_of_ranking(TOGETHER, MAPS, 3)
    assert together[shared].min() > together[~shared].max()


@pytest.mark.parametrize("by_layer", [False, True])
def test_random_heads_differ_between_seeds_and_tasks(by_layer):
    """Else two tasks with the same random heads would seem to need the same ones."""
    kept = [random_kept(APART, MAPS, 5, by_layer, seed) for seed in range(20)]
    first = first_of_ranking(APART, MAPS, 5)
    for of_seed in kept:
        assert of_seed.sum(axis=(1, 2)).tolist() == [5, 5]
        assert np.array_equal(of_seed.sum(axis=2), first.sum(axis=2)) or not by_layer
    assert by_layer or len({of_seed.tobytes() for of_seed in kept}) == 20
    alike = dict.fromkeys(CLASSES, np.arange(24.0).reshape(4, 6))
    runs = [random_kept(Sets([task], per_task=False), alike, 9, by_layer, 0) for task in CLASSES]
    assert not np.array_equal(*runs)


@pytest.mark.parametrize(("fraction", "heads", "expected"), [(0.3, 72, 22), (0.3, 10, 3), (0.1, 144, 15)])
def test_kept_heads_are_those_that_are_not_pruned(fraction, heads, expected):
    assert count_kept(fraction, heads) == expected


def test_evaluation_closes_the_heads_that_a_set_does_not_keep():
    net, examples = model(), data()
    rows = {task: np.arange(0, len(of_task), 2) for task, of_task in examples.items()}
    kept = np.stack([EVERY, ~EVERY])
    frame = evaluation(net, examples, rows, APART, kept, CPU)
    for task, gates in zip(CLASSES, kept, strict=True):
        net.gates.values = torch.from_numpy(gates).float()
        predicted = net.predictions(task, net.pool(examples[task].batch(rows[task])))
        of_task = frame[frame["task"] == task]
        assert np.array_equal(of_task["example"], rows[task])
        assert np.array_equal(of_task["prediction"], predicted.detach())


# --- what is said


@pytest.mark.parametrize(
    ("kind", "sets", "count", "score", "said"),
    [
        ("l0", TOGETHER, None, -9.0, "0 of 12 heads are open; use a smaller gates.penalty"),
        ("l0", TOGETHER, None, 9.0, "12 of 12 heads are open; use a larger gates.penalty"),
        ("l0-target", APART, 5, 3.0, "11.7 heads are expected to be open for task 'a', but the target is 5"),
        ("l0", TOGETHER, 5, 3.0, ""),
        ("subset", TOGETHER, 5, 3.0, ""),
    ],
)
def test_penalties_and_targets_that_are_missed_are_said(kind, sets, count, score, said, caplog):
    gating = learning(kind, sets, count)
    with torch.no_grad():
        for gates in gating.gates:
            gates.scores.fill_(score)
    gating.warn()
    assert said in caplog.text and bool(said) == bool(caplog.text)


@pytest.mark.parametrize("sets", [TOGETHER, APART], ids=["together", "apart"])
def test_a_target_that_few_steps_miss_is_said_and_counted(sets, tmp_path, caplog):
    """In the log of training, and by the numbers of the table `budgets`."""
    frame = finished(tmp_path, "l0-target", 2, sets)[2]
    assert caplog.text.count("heads are expected to be open") == len(sets.names)
    found = counts(frame)
    assert found.heads == 2 and found.open_heads > 8 and found.missed == 1


# --- the beginning


JOB = SimpleNamespace(  # the interface of ModelStage
    seed=3,
    beams={},
    trained=model,
    pretrained=lambda classes: model(),
)


def test_weights_begin_as_the_method_says():
    dynamic, fresh, again, static = (
        starting_model(JOB, PRUNING_METHODS[method], CLASSES, True)
        for method in ("dynamic", "fresh", "fresh", "static")
    )
    assert same(model().encoder, dynamic.encoder)
    assert same(fresh, again)
    name = "encoder.layer.0.attention.self.query.weight"
    assert not torch.equal(weights(fresh.encoder)[name], weights(model().encoder)[name])
    assert [p.requires_grad for p in static.classifiers.parameters()] == [False] * 4


@pytest.mark.parametrize("method", ["l0", "subset"])
def test_gates_learn_on_a_frozen_encoder(method, tmp_path):
    """It stays as it is, in what learns and in what follows; classifiers learn."""
    net, before = starting_model(JOB, PRUNING_METHODS[method], CLASSES, False), weights(model())
    planned, run = plan(method, 5, APART)
    state = learn(net, run, planned.gating(None, None), never(tmp_path))
    _, _, frame = finished(tmp_path, method, 5, APART, net, state)
    changed = {
        name.partition(".")[0] for name, value in weights(net).items() if (value != before[name]).any()
    }
    assert changed == {"classifiers"}
    assert frame[frame["step"] == frame["step"].max()].groupby("task")["score"].nunique().min() > 1
