"""Training with gates on the heads of an encoder-decoder, some kinds of attention or all."""

from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from headspec import per_example
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.models import tokenization
from headspec.models.multitask import MultiTask
from headspec.tasks.metrics import score
from headspec.training.gated import Sets
from headspec.training.loop import Setup
from headspec.training.pruned_run import (
    Plan,
    count_kept,
    evaluation,
    finish,
    fixed_layers,
    learning_steps,
    starting_model,
)
from support.tiny import CPU, HEADS, KINDS
from support.translators import translator
from support.two_tasks import never

SHAPE = (sum(KINDS.values()), HEADS)
ENCODER = np.arange(SHAPE[0]) < KINDS["encoder"]
MAPS = {"a": np.random.default_rng(0).random(SHAPE)}
SETS = Sets(["a"], per_task=False)


@pytest.fixture(scope="module")
def folder(model_folder) -> Path:
    return model_folder("marian")


def finished(made, method: str, settings: Gates, fixed: np.ndarray, count: int | None, tmp_path):
    """The heads that a run keeps, and the table of its gates."""
    model, examples = made
    epochs, steps = learning_steps({"a": examples}, Training(batch_size=8, epochs=1), settings, "trained")
    training = Training(batch_size=8, epochs=epochs, learning_rate=1e-3)
    plan = Plan(PRUNING_METHODS[method], settings, 8, SETS, model.gates.exists, fixed, count, steps, 0)
    setup = Setup({"a": examples}, training, 0, CPU)
    (kept,), frame = finish(model, setup, plan.gating(MAPS, None), None, never(tmp_path))
    return kept, frame


def test_layers_whose_heads_never_close(folder):
    gates = translator(folder, "marian")[0].gates
    assert not fixed_layers(gates, []).any()
    assert np.array_equal(fixed_layers(gates, ["encoder"]), ~ENCODER)
    assert np.array_equal(fixed_layers(gates, ["encoder", "cross"]), [0, 0, 0, 1, 1, 0, 0])
    assert count_kept(0.25, 12, 16) == 16 + 3


@pytest.mark.parametrize("kinds", [[], ["encoder"]])
@pytest.mark.parametrize("method", ["importance", "rescored", "l0", "l0-target", "subset", "random"])
def test_heads_of_other_kinds_stay_open(folder, method, kinds, tmp_path):
    model, examples = translator(folder, "marian", 24)
    fixed = fixed_layers(model.gates, kinds)
    count = count_kept(0.25, HEADS * int((~fixed).sum()), HEADS * int(fixed.sum()))
    kept, frame = finished((model, examples), method, Gates(epochs=2, rescorings=2), fixed, count, tmp_path)
    assert kept[fixed].all() and kept[~fixed].sum() == (3 if kinds else 7) == count - kept[fixed].sum()
    if method == "importance":
        assert MAPS["a"][kept & ~fixed[:, None]].min() > MAPS["a"][~kept].max()
    learnt = frame[frame["layer"].isin(np.flatnonzero(fixed))]
    assert learnt["kept"].all() and learnt["score"].isna().all()
    found = evaluation(model, {"a": examples}, {"a": np.arange(8)}, SETS, kept[None], CPU)
    assert 0 <= score("chrf", *(per_example.array(found, name) for name in ("label", "prediction"))) <= 1


def test_heads_of_encoders_alone_learn_without_a_number(folder, tmp_path):
    """A penalty that closes whatever it may leaves the heads of the decoder."""
    settings = Gates(epochs=4, penalty=5.0, learning=1.0, learning_rate=1.0)
    kept, frame = finished(translator(folder, "marian", 24), "l0", settings, ~ENCODER, None, tmp_path)
    assert kept[~ENCODER].all() and kept[ENCODER].sum() < ENCODER.sum() * HEADS
    assert frame["step"].nunique() > 2


def test_a_kept_structure_starts_from_fresh_weights_and_can_write(folder):
    model, examples = translator(folder, "marian")
    tokenizer = tokenization.tokenizer(SimpleNamespace(source=str(folder)), "m")
    job = SimpleNamespace(
        seed=1,
        beams={"a": 2},
        pretrained=lambda classes: MultiTask(model.encoder, "mean", classes, tokenizer=tokenizer),
    )
    before = {name: weight.clone() for name, weight in model.encoder.state_dict().items()}
    fresh = starting_model(job, PRUNING_METHODS["fresh"], model.classes, True)
    drawn = fresh.encoder.state_dict()
    matrices = [name for name in drawn if name.endswith("proj.weight")]
    assert fresh.classifier("a").beams == 2
    assert len(matrices) == 4 * SHAPE[0] and not any(before[name].equal(drawn[name]) for name in matrices)
    kept = np.zeros((1, *SHAPE), dtype=bool)
    kept[0, ::2] = True
    found = evaluation(fresh, {"a": examples}, {"a": np.arange(4)}, SETS, kept, CPU)
    assert len(found) == 4 and found["prediction_text"].notna().all()
