"""Variants of IAT after the branch: which heads move, when there is dropout, at which rates."""

from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.heads.importance import importance
from headspec.heads.ranking import importance_map
from headspec.models.attention.head_parameters import head_slices
from headspec.seeds import derive
from headspec.training.checkpoint import Checkpoint
from headspec.training.iat import End, branch, owned_heads, retrain
from headspec.training.loop import Trainer, trainer
from headspec.training.schedule import DECAYS, learning_rate
from headspec.training.variants.leaking import Leaking
from headspec.training.variants.lora import LoRA
from headspec.training.variants.own import Own
from headspec.training.variants.rescored import Rescored
from support.tiers import cases
from support.tiny import CPU, HEADS, LAYERS
from support.two_tasks import CLASSES, NO_DROPOUT, dies_after, model, never, same, setup

WARMUP = {"warmup": 0.25}
SEED, POINT, STEPS = 7, 9, 18
SETUP = setup(**WARMUP)
OWNED = {"a": np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) < 4}
OWNED["b"] = OWNED["a"][::-1, ::-1].copy()
EVERY = dict.fromkeys(CLASSES, np.ones((LAYERS, HEADS), dtype=bool))
NONE = dict.fromkeys(CLASSES, np.zeros((LAYERS, HEADS), dtype=bool))
RESCORED = Rescored(OWNED, "qkv", SEED, {"alpha": 0.3, "rescorings": 2, "samples": 20})
RESTRICTIONS = {
    "own": Own(OWNED, "qkv"), "own with W_O": Own(OWNED, "qkvo"), "leaking": Leaking(OWNED, "qkv"),
    "rescored": RESCORED, "lora": LoRA(OWNED, "qkv", SEED),
}  # fmt: skip


@pytest.fixture(scope="module")
def branched(tmp_path_factory) -> dict:
    """The state of plain training before its last half."""
    torch.set_num_threads(1)
    with trainer(model(), SETUP) as run:
        start = run.state()
    return deepcopy(branch(model(), SETUP, 0.5, start, never(tmp_path_factory.mktemp("branched"))))


def finished(branched: dict, folder: Path, restriction, checkpoint=None, **settings) -> tuple:
    net, kept = model(), checkpoint or never(folder)
    return net, retrain(net, setup(**WARMUP, **settings), restriction, deepcopy(branched), kept)


@contextmanager
def restricted(branched: dict, restriction, net=None, **settings) -> Iterator[Trainer]:
    """Yield a run at the branch, under a restriction."""
    with trainer(net or model(), setup(**WARMUP, **settings)) as run:
        run.restore(deepcopy(branched))
        with restriction.applied(run) if restriction else nullcontext():
            yield run


def weights(run: Trainer) -> list[torch.Tensor]:
    """Those of every slice."""
    slices = head_slices(run.model.gates, "qkv")
    return [part.view(part.parameter.detach()).clone() for part in slices]


# --- heads that are frozen


@pytest.mark.parametrize(
    ("restriction", "leaks"),
    [(RESTRICTIONS["own"], False), (Own(NONE, "qkv"), False), (RESTRICTIONS["leaking"], True)],
    ids=["own", "no heads at all", "leaking"],
)
def test_frozen_heads_stay_in_iat_and_move_in_leaking(branched, tmp_path, restriction, leaks):
    moved = {True: set(), False: set()}  # by whether the task of the step owns the slice
    with restricted(branched, restriction) as run:
        slices = head_slices(run.model.gates, "qkv")
        for number in range(POINT, STEPS):
            before = weights(run)
            run.run(number + 1, never(tmp_path))
            for part, was, now in zip(slices, before, weights(run), strict=True):
                own = (part.heads & restriction.heads[run.steps[number].task]).any()
                if part.parameter.dim() == 2 or not own:
                    moved[own].add(not torch.equal(was, now))
    assert moved == {True: {True} if restriction.heads is OWNED else set(), False: {leaks}}


def test_a_leaking_step_is_that_of_adamw_with_masked_gradients(branched, tmp_path):
    """In closed form, for a slice that the batch's task does not own; the others as in plain training."""
    after = []
    for restriction in (None, RESTRICTIONS["leaking"]):
        with restricted(branched, restriction, clip=1e-3) as run:
            updates = run.updates.updates if restriction else run.updates
            updates.optimizer.param_groups[0]["weight_decay"] = 0.1
            slices = head_slices(run.model.gates, "qkv")
            moments = [deepcopy(updates.optimizer.state[part.parameter]) for part in slices]
            before = weights(run)
            run.run(POINT + 1, never(tmp_path))
            after.append(weights(run))
            task, rate = run.steps[POINT].task, run.rates[POINT]
    n = float(moments[0]["step"]) + 1
    for part, was, plain, leaking, held in zip(slices, before, *after, moments, strict=True):
        if part.belongs(OWNED[task]):
            assert torch.equal(plain, leaking)
            continue
        average, square = 0.9 * part.view(held["exp_avg"]), 0.999 * part.view(held["exp_avg_sq"])
        step = average / (1 - 0.9**n) / ((square / (1 - 0.999**n)).sqrt() + 1e-8)
        torch.testing.assert_close(leaking, was * (1 - 0.1 * rate) - rate * step, rtol=1e-5, atol=1e-8)
        assert part.parameter.dim() == 1 or not torch.equal(plain, leaking)


@pytest.mark.parametrize("restriction", [Leaking, Rescored])
def test_every_head_owned_is_plain_training_to_the_byte(branched, tmp_path, restriction):
    plain, _ = finished(branched, tmp_path, Own(EVERY, "qkv"))
    other, _ = finished(branched, tmp_path, restriction(EVERY, "qkv", SEED, RESCORED.variant))
    assert same(plain, other)


# --- scored again


def test_heads_are_scored_again_at_equal_distances(branched, tmp_path):
    """Before steps 9 + 3 and 9 + 6; until then the run is that of IAT."""
    owners, expected = [], {}
    with restricted(branched, RESCORED) as run:
        for number in range(POINT, STEPS):
            if number in (12, 15):
                rng = np.random.default_rng(derive(SEED, "iat rescored", number))
                frame = importance(run.model, run.examples, 20, rng, CPU)
                maps = {task: importance_map(frame, task) for task in CLASSES}
                expected = owned_heads(maps, "top", 0.3, SEED)
            run.run(number + 1, never(tmp_path))
            owners.append(run.updates.owned)
            if expected:
                assert all((mask == expected[task]).all() for task, mask in owners[-1].items())
    assert [a is not b for a, b in zip(owners, owners[1:], strict=False)] == [i in (2, 5) for i in range(8)]
    assert owners[0] is OWNED
    rescored, iat = (
        finished(branched, tmp_path, RESTRICTIONS[name])[1]["loss"] for name in ("rescored", "own")
    )
    assert rescored[: POINT + 4].tolist() == iat[: POINT + 4].tolist()
    assert rescored[POINT + 4 :].tolist() != iat[POINT + 4 :].tolist()


def test_slices_keep_their_moments_and_steps_when_owners_change(branched, tmp_path):
    """Also those that nobody owned for a while."""
    with restricted(branched, RESCORED) as run:
        run.run(POINT + 2, never(tmp_path))
        before, held = run.updates.moments(), weights(run)
        other = {task: ~mask for task, mask in OWNED.items()}
        run.updates.own(other, before)
        after = deepcopy(run.updates.moments())
        assert {float(each["step"]) for each in before} > {float(POINT)}
        for one, two in zip(before, after, strict=True):
            assert one.keys() == two.keys() == {"step", "exp_avg", "exp_avg_sq"}
            assert all(torch.equal(value, two[name]) for name, value in one.items())
        assert all(torch.equal(a, b) for a, b in zip(held, weights(run), strict=True))
        task = run.steps[POINT + 2].task
        run.run(POINT + 3, never(tmp_path))
        for part, was, now in zip(run.updates.slices, after, run.updates.moments(), strict=True):
            assert float(now["step"] - was["step"]) == part.belongs(other[task])


# --- dropout and rates


@pytest.mark.parametrize("dropout", [True, False])
def test_dropout_is_off_exactly_from_the_branch_on(branched, tmp_path, dropout):
    """Without it no random numbers are drawn, and the model is in training mode again afterwards."""
    net = model()
    with trainer(net, SETUP) as run:
        run.run(POINT, never(tmp_path))
        plain = run.state()
        assert all(torch.equal(v, plain["model"][k]) for k, v in branched["model"].items())
        before = torch.get_rng_state()
        with End(RESTRICTIONS["own"], dropout).applied(run):
            assert all(part.training == dropout for part in net.modules())
            run.run(STEPS, never(tmp_path))
        assert torch.equal(before, torch.get_rng_state()) == (not dropout)
        assert all(part.training for part in net.modules())


def test_without_dropout_is_as_with_a_model_that_has_none(branched, tmp_path):
    losses = []
    for settings, dropout in (({}, False), (NO_DROPOUT, True)):
        with restricted(branched, End(RESCORED, dropout), model(**settings)) as run:
            run.run(STEPS, never(tmp_path))
            losses.append(run.frame()["loss"].tolist())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)


@pytest.mark.parametrize("decay", DECAYS)
def test_rates_go_up_again_and_fall_as_in_training(branched, tmp_path, decay):
    went_on, again = (
        finished(branched, tmp_path, End(RESTRICTIONS["own"], peak=peak), decay=decay)[1]
        for peak in (None, 5e-4)
    )
    expected = [learning_rate(n, STEPS, 1e-3, 0.25, decay) for n in range(STEPS)]
    assert went_on["learning_rate"][POINT:].tolist() == expected[POINT:]
    expected = [learning_rate(n, 9, 5e-4, 0.25, decay) for n in range(9)]
    assert again["learning_rate"][POINT:].tolist() == expected and max(expected) == 5e-4
    assert again["loss"][: POINT + 1].tolist() == went_on["loss"][: POINT + 1].tolist()


# --- resumed


@pytest.mark.parametrize("last", cases([10, 13, 16], (13).__eq__))
@pytest.mark.parametrize("name", RESTRICTIONS)
def test_interrupted_ends_give_the_same_bytes(branched, tmp_path, name, last):
    end = End(RESTRICTIONS[name], dropout=name == "rescored", peak=2e-3)
    undisturbed, history = finished(branched, tmp_path, end)
    every = Checkpoint(tmp_path / "c.pt", "f", 0)
    with dies_after(last):
        finished(branched, tmp_path, end, every)
    resumed, again = finished(branched, tmp_path, end, every)
    assert same(undisturbed, resumed) and history["learning_rate"].equals(again["learning_rate"])
