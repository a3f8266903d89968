"""Variants of IAT after the branch: which heads move, when there is dropout, at which rates."""

from contextlib import nullcontext
from copy import deepcopy
from pathlib import Path

import numpy as np
import pytest
import torch

from headspec.config.sections.training import Training
from headspec.heads.importance import importance
from headspec.heads.ranking import importance_map
from headspec.models.head_parameters import head_slices
from headspec.seeds import derive
from headspec.training.checkpoint import Checkpoint
from headspec.training.iat import End, branch, retrain
from headspec.training.loop import Setup, Trainer, trainer
from headspec.training.schedule import learning_rate
from headspec.training.variants.leaking import Leaking
from headspec.training.variants.lora import LoRA
from headspec.training.variants.own import Own
from headspec.training.variants.owned import owned_heads
from headspec.training.variants.rescored import Rescored
from support.tiny import CPU, HEADS, LAYERS
from support.two_tasks import CLASSES, data, dies_after, model, never, same

SETTINGS = Training(batch_size=8, epochs=2, learning_rate=1e-3, warmup=0.25)
SEED, POINT, STEPS = 7, 9, 18
SETUP = Setup(data(), SETTINGS, SEED, CPU)
OWNED = {"a": np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) < 4}
OWNED["b"] = OWNED["a"][::-1, ::-1].copy()
EVERY = dict.fromkeys(CLASSES, np.ones((LAYERS, HEADS), dtype=bool))
RESCORED = Rescored(OWNED, "qkv", SEED, {"alpha": 0.3, "rescorings": 2, "samples": 20})
RESTRICTIONS = {
    "own": Own(OWNED, "qkv"), "own with W_O": Own(OWNED, "qkvo"), "leaking": Leaking(OWNED, "qkv"),
    "rescored": RESCORED, "lora": LoRA(OWNED, "qkv", SEED),
}  # fmt: skip


@pytest.fixture(scope="module")
def branched(tmp_path_factory) -> dict:
    """The state of plain training before its last half."""
    torch.set_num_threads(1)
    folder: Path = tmp_path_factory.mktemp("branched")
    with trainer(model(), SETUP) as run:
        start = run.state()
    return deepcopy(branch(model(), SETUP, 0.5, start, never(folder)))


def finished(branched: dict, folder: Path, restriction, settings=SETTINGS, checkpoint=None) -> tuple:
    net = model()
    frame = retrain(
        net, Setup(data(), settings, SEED, CPU), restriction, deepcopy(branched), checkpoint or never(folder)
    )
    return net, frame


def weights(run: Trainer) -> list[torch.Tensor]:
    """Those of every slice."""
    slices = head_slices(run.model.gates, "qkv")
    return [part.view(part.parameter.detach()).clone() for part in slices]


def moved(run: Trainer, folder: Path) -> list[tuple[str, np.ndarray, bool, bool]]:
    """For every step and slice: the task, the heads, whether it moved, and whether it has two dimensions."""
    rows = []
    slices = head_slices(run.model.gates, "qkv")
    for number in range(len(run.history), STEPS):
        before = weights(run)
        run.run(number + 1, never(folder))
        task = run.steps[number].task
        for part, was, now in zip(slices, before, weights(run), strict=True):
            rows.append((task, part.heads, not torch.equal(was, now), part.parameter.dim() == 2))
    return rows


def within(branched: dict, restriction, folder: Path) -> list[tuple[str, np.ndarray, bool, bool]]:
    with trainer(model(), SETUP) as run:
        run.restore(deepcopy(branched))
        with restriction.applied(run):
            return moved(run, folder)


# --- heads that are frozen


def test_frozen_heads_stay_in_iat_and_move_in_leaking(branched, tmp_path):
    for name, leaks in (("own", False), ("leaking", True)):
        rows = within(branched, RESTRICTIONS[name], tmp_path)
        frozen = [moves for task, heads, moves, _ in rows if not (heads & OWNED[task]).any()]
        own = [moves for task, heads, moves, matrix in rows if (heads & OWNED[task]).any() and matrix]
        assert all(own) and own and frozen
        assert all(frozen) if leaks else not any(frozen)


def test_a_leaking_step_is_that_of_adamw_with_masked_gradients(branched):
    """In closed form, for a slice that the batch's task does not own; the others as in plain training."""
    settings = SETTINGS.model_copy(update={"clip": 1e-3})
    slices, after = [], []
    for restriction in (nullcontext, RESTRICTIONS["leaking"].applied):
        with trainer(model(), Setup(data(), settings, SEED, CPU)) as run:
            run.restore(deepcopy(branched))
            run.updates.optimizer.param_groups[0]["weight_decay"] = 0.1
            slices.append(head_slices(run.model.gates, "qkv"))
            state = run.updates.optimizer.state
            moments = [deepcopy(state[part.parameter]) for part in slices[-1]]
            before = weights(run)
            with restriction(run):
                run.run(POINT + 1, never(Path()))
            after.append(weights(run))
            task, rate = run.steps[POINT].task, run.rates[POINT]
    n = float(moments[0]["step"]) + 1
    for part, was, plain, leaking, held in zip(slices[0], before, *after, moments, strict=True):
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


def test_unshared_heads_are_top_heads_of_one_task_alone():
    rng = np.random.default_rng(0)
    importances = {task: rng.random((4, 5)) for task in "abc"}
    top = owned_heads(importances, "top", 0.5, 0)
    unshared = owned_heads(importances, "unshared", 0.5, 0)
    for task in importances:
        others = np.any([top[other] for other in importances if other != task], axis=0)
        assert (unshared[task] == (top[task] & ~others)).all()
    assert 0 < sum(mask.sum() for mask in unshared.values()) < 30
    alike = dict.fromkeys("ab", importances["a"])
    assert not any(mask.any() for mask in owned_heads(alike, "unshared", 0.5, 0).values())


def test_no_heads_at_all_can_be_trained(branched, tmp_path):
    none = Own(dict.fromkeys(CLASSES, np.zeros((LAYERS, HEADS), dtype=bool)), "qkv")
    assert not any(moves for *_, moves, _ in within(branched, none, tmp_path))


# --- scored again


def test_heads_are_scored_again_at_equal_distances(branched, tmp_path):
    """Before steps 9 + 3 and 9 + 6; until then the run is that of IAT."""
    with trainer(model(), SETUP) as run:
        run.restore(deepcopy(branched))
        with RESCORED.applied(run):
            owners, expected = [], {}
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
    _, frame = finished(branched, tmp_path, RESCORED)
    _, iat = finished(branched, tmp_path, RESTRICTIONS["own"])
    assert frame["loss"][: POINT + 4].tolist() == iat["loss"][: POINT + 4].tolist()
    assert frame["loss"][POINT + 4 :].tolist() != iat["loss"][POINT + 4 :].tolist()


def test_slices_keep_their_moments_and_steps_when_owners_change(branched, tmp_path):
    """Also those that nobody owned for a while."""
    with trainer(model(), SETUP) as run:
        run.restore(deepcopy(branched))
        with RESCORED.applied(run):
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


def test_dropout_is_off_exactly_from_the_branch_on(branched, tmp_path):
    """Without it no random numbers are drawn, and the model is in training mode again afterwards."""
    for dropout in (True, False):
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
    frames = []
    for settings, dropout in (({}, False), (dict.fromkeys(NO_DROPOUT, 0.0), True)):
        with trainer(model(**settings), SETUP) as run:
            run.restore(deepcopy(branched))
            with End(RESCORED, dropout).applied(run):
                run.run(STEPS, never(tmp_path))
            frames.append(run.frame()["loss"].tolist())
    assert frames[0] == pytest.approx(frames[1], rel=1e-5)


NO_DROPOUT = ("hidden_dropout_prob", "attention_probs_dropout_prob")


@pytest.mark.parametrize("decay", ["linear", "cosine", "constant"])
def test_rates_go_up_again_and_fall_as_in_training(branched, tmp_path, decay):
    settings = SETTINGS.model_copy(update={"decay": decay})
    _, went_on = finished(branched, tmp_path, End(RESTRICTIONS["own"]), settings)
    _, again = finished(branched, tmp_path, End(RESTRICTIONS["own"], peak=5e-4), settings)
    expected = [learning_rate(n, STEPS, 1e-3, 0.25, decay) for n in range(STEPS)]
    assert went_on["learning_rate"][POINT:].tolist() == expected[POINT:]
    expected = [learning_rate(n, 9, 5e-4, 0.25, decay) for n in range(9)]
    assert again["learning_rate"][POINT:].tolist() == expected and max(expected) == 5e-4
    assert again["loss"][: POINT + 1].tolist() == went_on["loss"][: POINT + 1].tolist()


# --- resumed


@pytest.mark.parametrize("last", [10, 13, 16])
@pytest.mark.parametrize("name", RESTRICTIONS)
def test_interrupted_ends_give_the_same_bytes(branched, tmp_path, name, last):
    end = End(RESTRICTIONS[name], dropout=name == "rescored", peak=2e-3)
    undisturbed, history = finished(branched, tmp_path, end)
    every = Checkpoint(tmp_path / "c.pt", "f", 0)
    with dies_after(last):
        finished(branched, tmp_path, end, checkpoint=every)
    resumed, again = finished(branched, tmp_path, end, checkpoint=every)
    assert same(undisturbed, resumed) and history["learning_rate"].equals(again["learning_rate"])
