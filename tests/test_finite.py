"""What is not finite stops a job: training that diverges, and models that compute nothing of use."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import tables
from headspec.batching import Examples
from headspec.devices import Device
from headspec.errors import NumericalError
from headspec.iat import Own, retrain
from headspec.importance import importance
from headspec.lora import LoRA
from headspec.masks import Mask
from headspec.multitask import MultiTask
from headspec.progress import Progress
from headspec.pruning import evaluation_table, predictions
from headspec.representations import features, mean_of_tasks, of_tasks
from headspec.sections import Training, Transfer
from headspec.sensitivity import fisher, gradient
from headspec.training import Checkpoint, train, trainer
from headspec.transfer import transfer
from studies import CONFIG, Folder
from tiny import CPU, HEADS, LAYERS, encoder, examples

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
HUGE = 1e30  # a learning rate after whose first step the weights' squares are no numbers
STEPS = 24


def model() -> MultiTask:
    torch.set_num_threads(1)
    built = encoder("bert")
    torch.manual_seed(3)
    return MultiTask(built, "mean", CLASSES)


def data() -> dict[str, Examples]:
    return {"a": examples(40, 2, 1), "b": examples(30, 3, 2), "r": examples(20, 5, 3)}


def settings(**changed) -> Training:
    return Training(**({"batch_size": 8, "epochs": 2, "learning_rate": 1e-3} | changed))


def never(folder) -> Checkpoint:
    return Checkpoint(folder / "none.pt", "", 1e9)


def finite(state: dict) -> bool:
    return all(value.isfinite().all() for value in state["model"].values())


# --- training


@pytest.mark.parametrize(
    ("changed", "device", "advice"),
    [
        ({}, CPU, r"try a smaller training.learning_rate \(now 1e\+30\)$"),
        ({"clip": None}, CPU, r"learning_rate \(now 1e\+30\) or training.clip: 1.0 \(now null\)$"),
        ({}, Device("cpu", "bfloat16"), r"learning_rate \(now 1e\+30\) or precision: fp32 \(now bf16\)$"),
    ],
)
def test_diverging_training_names_step_task_and_remedy(tmp_path, changed, device, advice):
    own = model()
    with trainer(own, data(), settings(learning_rate=HUGE, **changed), None, 7, device) as run:
        with pytest.raises(NumericalError, match=advice) as caught:
            run.run(STEPS, never(tmp_path))
        done = run.history
        assert all(np.isfinite(row[3]) for row in done)
        said = re.match(r"step (\d+) of 24, a batch of task '(\w)': the loss is (nan|inf)", str(caught.value))
        assert said and int(said[1]) == len(done) + 1 > 1
        assert said[2] == run.steps[len(done)].task


def test_a_loss_fetched_late_is_found_at_its_step(tmp_path):
    said = []
    for patience in (0.0, 1e9):
        with trainer(model(), data(), settings(learning_rate=HUGE), None, 7, CPU) as run:
            run.patience = patience
            with pytest.raises(NumericalError) as caught:
                run.run(STEPS, never(tmp_path))
            said.append(str(caught.value))
    assert said[0] == said[1]


def test_frozen_training_names_its_own_learning_rate(tmp_path):
    own, texts = model(), data()
    fixed = {task: e.vectors(features(own, task, e, CPU)) for task, e in texts.items()}
    with pytest.raises(NumericalError, match=r"training\.frozen\.learning_rate \(now 3e\+38\)"):
        train(own, texts, settings(learning_rate=3e38), fixed, 7, CPU, never(tmp_path))


@pytest.mark.parametrize("way", ["own", "lora"])
def test_training_from_a_branch_diverges_alike(tmp_path, way):
    own, kept = model(), Checkpoint(tmp_path / "kept.pt", "", 0)
    train(own, data(), settings(), None, 7, CPU, never(tmp_path), trunk=kept, reserve=0.5)
    state = kept.load("cpu")
    assert state is not None and finite(state)
    heads = {task: np.zeros((LAYERS, HEADS), dtype=bool) for task in CLASSES}
    for number, mask in enumerate(heads.values()):
        mask[:, number] = True
    restriction = Own(heads, "qkv") if way == "own" else LoRA(heads, "qkv", 7)
    checkpoint = Checkpoint(tmp_path / "checkpoint.pt", "", 0)
    with pytest.raises(NumericalError, match=r"step \d+ of 24, a batch of task '\w': the loss") as caught:
        retrain(model(), data(), settings(learning_rate=HUGE), restriction, 7, CPU, state, checkpoint)
    last = checkpoint.load("cpu")
    assert last is not None and finite(last)
    assert f"goes on after step {len(last['history'])}, from {checkpoint.path}" in str(caught.value)


def test_gradients_without_a_number_stop_it_too(tmp_path):
    """A large loss is a number, the norm of its gradient is none."""
    own = model()
    with torch.no_grad():
        for head in own.heads:
            head.weight.mul_(1e24)
    said = r"step 1 of 24, a batch of task '\w': the loss is [\d.e+]+, but the norm of its gradient (inf|nan)"
    with pytest.raises(NumericalError, match=said):
        train(own, data(), settings(), None, 7, CPU, never(tmp_path))


def test_weights_without_a_number_are_never_kept(tmp_path):
    """Those that the last step makes, which no loss has seen."""
    checkpoint, trunk = (Checkpoint(tmp_path / name, "", 0) for name in ("c.pt", "trunk.pt"))
    texts = {"a": examples(8, 2, 1)}
    rough = settings(epochs=1, learning_rate=HUGE, weight_decay=1e10)
    with pytest.raises(NumericalError, match="the loss is finite, but .* tensors are not, such as 'encoder"):
        train(model(), texts, rough, None, 7, CPU, checkpoint, trunk=trunk, reserve=0.0)
    assert not checkpoint.path.exists() and not trunk.path.exists()


def test_a_checkpoint_survives_and_is_continued(tmp_path, monkeypatch):
    """After a fault that does not come again, as of a failing device."""
    undisturbed = model()
    history = train(undisturbed, data(), settings(), None, 7, CPU, never(tmp_path))
    losses, calls = MultiTask.losses, []

    def faulty(self, *args):
        calls.append(len(calls))
        return losses(self, *args) * (torch.inf if len(calls) == 10 else 1)

    monkeypatch.setattr(MultiTask, "losses", faulty)
    checkpoint = Checkpoint(tmp_path / "c.pt", "f", 0)
    with pytest.raises(
        NumericalError, match=r"step 10 of 24.*the loss is (inf|nan).* goes on after step 9, from"
    ):
        train(model(), data(), settings(), None, 7, CPU, checkpoint)
    state = checkpoint.load("cpu")
    assert state is not None and finite(state) and len(state["history"]) == 9
    again = model()
    resumed = train(again, data(), settings(), None, 7, CPU, checkpoint)
    assert len(calls) == 10 + STEPS - 9
    assert resumed["loss"].equals(history["loss"])
    for name, value in undisturbed.state_dict().items():
        assert torch.equal(value, again.state_dict()[name]), name


# --- few-shot transfer


def encoded(n: int, seed: int) -> pd.DataFrame:
    own = examples(n, 2, seed)
    columns = {"example": own.example, "label": own.label, "input_ids": own.ids, "token_type_ids": None}
    return pd.DataFrame(columns)


@pytest.mark.parametrize("key", ["transfer.learning_rate", "training.learning_rate"])
def test_diverging_transfer(tmp_path, key):
    draws = pd.DataFrame({"draw": 0, "place": range(8), "example": range(8)})
    rates = {"learning_rate": HUGE} if key.startswith("transfer") else {}
    few = Transfer(samples=[8], draws=2, steps=6, tuning=["full"], **rates)
    with pytest.raises(
        NumericalError, match=rf"step \d of 6 on 8 examples of task 'a'.*try a smaller {key} "
    ):
        transfer(
            model(), "a", encoded(20, 1), encoded(9, 2), draws, ["accuracy"], few,
            settings(learning_rate=HUGE), 0, CPU, never(tmp_path),
        )  # fmt: skip


# --- models that were trained to nothing


@pytest.fixture(params=["encoder", "classifier"])
def broken(request) -> MultiTask:
    """A model with a weight that is infinite, or a classifier of the last class that is."""
    own = model().eval()
    with torch.no_grad():
        if request.param == "encoder":
            own.encoder.encoder.layer[1].output.dense.weight[0, 0] = torch.inf
        else:
            for head in own.heads:
                head.weight[-1, 0] = torch.inf
    return own


def refused(task: str, examples: str = r"\d+ of \d+ examples, such as \d+"):
    words = rf"task '{task}'.*{examples}.*: nan or infinite; try a smaller training.learning_rate"
    return pytest.raises(NumericalError, match=words)


def test_importance_of_a_broken_model(broken):
    with refused("a", "20 of 20 examples"):
        importance(broken, data(), 20, np.random.default_rng(0), CPU)


@pytest.mark.parametrize("task", CLASSES)
def test_predictions_of_a_broken_model(broken, task):
    """Of classes as well, whose index would be a number like any other."""
    with refused(task):
        evaluation_table(broken, {task: data()[task]}, CPU)


def test_predictions_name_the_mask(broken):
    closed = np.zeros((LAYERS, HEADS), dtype=bool)
    closed[0, 0] = True
    with pytest.raises(NumericalError, match="task 'a' with heads pruned for b, of 40 of 40 examples"):
        predictions(broken, {"a": data()["a"]}, [Mask("b", "top", 0.1, None, closed)], CPU)


def test_one_example_is_enough():
    own, texts = model().eval(), examples(20, 2, 1)
    only = {t for t in texts.ids[7] if not any(t in ids for i, ids in enumerate(texts.ids) if i != 7)}
    with torch.no_grad():
        own.encoder.embeddings.word_embeddings.weight[only.pop()] = torch.nan
    with refused("a", "1 of 20 examples, such as 7"):
        evaluation_table(own, {"a": texts}, CPU)


def test_representations_of_a_broken_model():
    own, texts = model().eval(), data()
    with torch.no_grad():
        own.encoder.encoder.layer[1].output.dense.weight[0, 0] = torch.inf
    with refused("b"):
        of_tasks(iter([("b", own)]), 1, texts["a"], CPU)
    with refused("a"):
        mean_of_tasks(own, texts, {task: np.arange(len(e)) for task, e in texts.items()}, CPU)
    with refused("r"):
        features(own, "r", texts["r"], CPU)


@pytest.mark.parametrize("sensitivity", [fisher, gradient])
def test_sensitivity_of_a_broken_model(broken, sensitivity):
    with refused("b", ""):
        sensitivity(broken, "b", data()["b"], np.arange(5), CPU, Progress(5, "examples"))


def test_precision_is_among_the_remedies():
    own = model().eval()
    with torch.no_grad():
        own.heads[0].weight[0, 0] = torch.nan
    with pytest.raises(NumericalError, match=r"try precision: fp32 \(now bf16\) or a smaller"):
        evaluation_table(own, {"a": data()["a"]}, Device("cpu", "bfloat16"))


# --- a study


@pytest.mark.slow
def test_a_study_that_diverges_says_so_and_is_mended(tmp_path):
    folder = Folder.new(tmp_path / "study")
    folder.write(CONFIG | {"mixtures": {"pairs": ["tone", "topic"]}, "methods": ["tuned"], "seeds": [0]})
    folder.set("training.learning_rate", HUGE)
    folder.set("training.checkpoint_minutes", 0)
    folder.set("training.clip", None)
    run = "bert/tone+topic/tuned/seed0"
    target = f"results/tiny/runs/{run}/training.parquet"
    output = folder.snakemake(target, fails=True)
    said = re.search(
        rf"train {re.escape(run)}  step (\d+) of 104, a batch of task 't\w+': the loss is (nan|inf); "
        r"try a smaller training.learning_rate \(now 1e\+30\) or training.clip: 1.0 \(now null\).*"
        rf"after step (\d+), from results/tiny/runs/{re.escape(run)}/checkpoint.pt",
        output,
    )
    assert said and int(said[1]) == int(said[3]) + 1, output
    assert "Traceback" not in output
    kept = torch.load(folder.path / target.replace("training.parquet", "checkpoint.pt"), weights_only=True)
    assert finite(kept) and len(kept["history"]) == int(said[3])
    assert not (folder.path / target).exists()
    folder.set("training.learning_rate", 3e-3)
    folder.snakemake(target)
    history = tables.read(folder.path / target)
    assert len(history) == 104 and np.isfinite(history["loss"]).all()
    assert not (folder.path / target).with_name("checkpoint.pt").exists()
