"""Values that are not finite stop a job: diverging training, and models with such output."""

import re

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import tables
from headspec.config.sections.iat import Transfer
from headspec.config.sections.training import Training
from headspec.errors import NumericalError
from headspec.heads.masks import Mask
from headspec.heads.pruning import evaluation_table, predictions
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.internals.activations import representations, task_means
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.similarity.sensitivity import fisher, gradient
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import Setup, train, trainer
from headspec.training.transfer import Fitting, Target, transfer
from support.running.studies import CONFIG, Folder
from support.tiny import CPU, HEADS, LAYERS, encoder, examples
from support.two_tasks import never, same

CLASSES = {"a": ["x", "y"], "b": ["x", "y", "z"], "r": None}
HUGE = 1e30  # a learning rate whose first step makes the squares of weights overflow
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


def finite(state: dict) -> bool:
    return all(value.isfinite().all() for value in state["model"].values())


# --- training


@pytest.mark.parametrize(
    ("changed", "device", "advice"),
    [
        ({}, CPU, r"try a smaller training.learning_rate \(now 1e\+30\)"),
        ({"clip": None}, CPU, r"learning_rate \(now 1e\+30\) or training.clip: 1.0 \(now null\)"),
        ({}, Device("cpu", "bfloat16"), r"learning_rate \(now 1e\+30\) or precision: fp32 \(now bf16\)"),
    ],
)
def test_diverging_training_names_step_task_and_remedy(tmp_path, changed, device, advice):
    """The same whether losses are fetched at once or late."""
    messages = set()
    for sync_interval in (1e9, 0.0):
        with trainer(model(), Setup(data(), settings(learning_rate=HUGE, **changed), 7, device)) as run:
            run.sync_interval = sync_interval
            with pytest.raises(NumericalError) as caught:
                run.run(STEPS, never(tmp_path))
            messages.add(str(caught.value))
    (message,), done = messages, run.history
    assert done and all(np.isfinite(row[3]) for row in done)
    where = f"step {len(done) + 1} of 24, a batch of task '{run.steps[len(done)].task}'"
    assert re.fullmatch(f"{where}: the loss is (nan|inf); .*{advice}", message)


def test_frozen_training_names_the_key_of_its_learning_rate(tmp_path):
    trained, texts = model(), data()
    fixed = {task: e.vectors(representations([(task, trained)], e, CPU)) for task, e in texts.items()}
    with pytest.raises(NumericalError, match=r"training\.frozen\.learning_rate \(now 3e\+38\)"):
        train(trained, Setup(texts, settings(learning_rate=3e38), 7, CPU, features=fixed), never(tmp_path))


def test_gradients_that_are_not_finite_stop_training(tmp_path):
    """The loss is large but finite, the norm of its gradient is not."""
    trained = model()
    with torch.no_grad():
        for head in trained.classifiers:
            head.weight.mul_(1e24)
    problem = r"step 1 of 24, .*: the loss is [\d.e+]+, but the norm of its gradient is (inf|nan)"
    with pytest.raises(NumericalError, match=problem):
        train(trained, Setup(data(), settings(), 7, CPU), never(tmp_path))


def test_weights_that_are_not_finite_are_never_saved(tmp_path):
    """Even after the last step, which no loss follows."""
    checkpoint, trunk = (Checkpoint(tmp_path / name, "", 0) for name in ("c.pt", "trunk.pt"))
    texts = {"a": examples(8, 2, 1)}
    rough = settings(epochs=1, learning_rate=HUGE, weight_decay=1e10)
    with pytest.raises(NumericalError, match="the loss is finite, but .* tensors are not, such as 'encoder"):
        train(model(), Setup(texts, rough, 7, CPU), checkpoint, trunk=trunk, reserve=0.0)
    assert not checkpoint.path.exists() and not trunk.path.exists()


def test_training_continues_from_the_last_good_checkpoint(tmp_path, monkeypatch):
    """After a fault that does not recur, such as of a failing device."""
    undisturbed = model()
    history = train(undisturbed, Setup(data(), settings(), 7, CPU), never(tmp_path))
    losses, calls = MultiTask.losses, []

    def faulty(self, *args):
        calls.append(len(calls))
        return losses(self, *args) * (torch.inf if len(calls) == 10 else 1)

    monkeypatch.setattr(MultiTask, "losses", faulty)
    checkpoint = Checkpoint(tmp_path / "c.pt", "f", 0)
    problem = r"step 10 of 24.*the loss is (inf|nan).* goes on after step 9, from"
    with pytest.raises(NumericalError, match=problem):
        train(model(), Setup(data(), settings(), 7, CPU), checkpoint)
    state = checkpoint.load()
    assert state is not None and finite(state) and len(state["history"]) == 9
    again = model()
    resumed = train(again, Setup(data(), settings(), 7, CPU), checkpoint)
    assert len(calls) == 10 + STEPS - 9
    assert resumed["loss"].equals(history["loss"])
    assert same(undisturbed, again)


# --- few-shot transfer


@pytest.mark.parametrize("key", ["transfer.learning_rate", "training.learning_rate"])
def test_diverging_transfer(tmp_path, key):
    draws = pd.DataFrame({"draw": 0, "place": range(8), "example": range(8)})
    texts = examples(20, 2, 1)
    encoded = pd.DataFrame({"example": texts.example, "label": texts.label, "input_ids": texts.ids})
    encoded["token_type_ids"] = None
    rates = {"learning_rate": HUGE} if key.startswith("transfer") else {}
    few = Transfer(samples=[8], draws=2, steps=6, tuning=["full"], **rates)
    fitting = Fitting(few, settings(learning_rate=HUGE), 0, CPU)
    problem = rf"step \d of 6 on 8 examples of task 'a'.*try a smaller {key} "
    with pytest.raises(NumericalError, match=problem):
        transfer(model(), Target("a", encoded, encoded, draws, ["accuracy"]), fitting, never(tmp_path))


# --- models whose output is not finite


@pytest.fixture(params=["encoder", "classifier"])
def broken(request) -> MultiTask:
    """A model with an infinite weight in the encoder, or in the classifier of the last class."""
    broken_model = model().eval()
    with torch.no_grad():
        if request.param == "encoder":
            broken_model.encoder.encoder.layer[1].output.dense.weight[0, 0] = torch.inf
        else:
            for head in broken_model.classifiers:
                head.weight[-1, 0] = torch.inf
    return broken_model


def refused(task: str, examples: str = r"\d+ of \d+ examples, such as \d+"):
    words = rf"task '{task}'.*{examples}.*: nan or infinite; try a smaller training.learning_rate"
    return pytest.raises(NumericalError, match=words)


@pytest.mark.parametrize("task", CLASSES)
def test_predictions_of_a_broken_model(broken, task):
    """Also of classes, whose indices would look valid; the error names the mask."""
    texts = {task: data()[task]}
    with refused(task):
        evaluation_table(broken, texts, CPU)
    closed = np.arange(LAYERS * HEADS).reshape(LAYERS, HEADS) == 0
    with pytest.raises(NumericalError, match=rf"task '{task}' with heads pruned for b, of \d+ of \d+ exam"):
        predictions(broken, texts, [Mask("b", "top", 0.1, None, closed)], CPU)


def test_one_example_is_enough():
    broken_model, texts = model().eval(), examples(20, 2, 1)
    only = {t for t in texts.ids[7] if not any(t in ids for i, ids in enumerate(texts.ids) if i != 7)}
    with torch.no_grad():
        broken_model.encoder.embeddings.word_embeddings.weight[only.pop()] = torch.nan
    with refused("a", "1 of 20 examples, such as 7"):
        evaluation_table(broken_model, {"a": texts}, CPU)
    with pytest.raises(NumericalError, match=r"try precision: fp32 \(now bf16\) or a smaller"):
        evaluation_table(broken_model, {"a": texts}, Device("cpu", "bfloat16"))
    with refused("b"):
        representations([("b", broken_model)], texts, CPU)
    with refused("a"):
        task_means(broken_model, {"a": texts}, {"a": np.arange(20)}, CPU)


@pytest.mark.parametrize("sensitivity", [fisher, gradient])
def test_sensitivity_of_a_broken_model(broken, sensitivity):
    with refused("b", ""):
        sensitivity(broken, "b", data()["b"], np.arange(5), CPU, Progress(5, "examples"))


# --- a study


@pytest.mark.slow
def test_a_study_that_diverges_reports_it_and_can_be_repaired(tmp_path):
    folder = Folder.new(tmp_path / "study")
    training = {"epochs": 1, "checkpoint_minutes": 0, "clip": None, "learning_rate": HUGE}
    changes = {"mixtures": {"pairs": ["tone", "topic"]}, "methods": ["tuned"], "seeds": [0]}
    folder.write(CONFIG | changes | {"training": CONFIG["training"] | training})
    run = "bert/tone+topic/tuned/seed0"
    target = f"results/tiny/runs/{run}/training.parquet"
    checkpoint = (folder.path / target).with_name("checkpoint.pt")
    output = folder.snakemake(target, fails=True)
    message = re.search(
        rf"train {re.escape(run)}  step (\d+) of 26, a batch of task 't\w+': the loss is (nan|inf); "
        r"try a smaller training.learning_rate \(now 1e\+30\) or training.clip: 1.0 \(now null\).*"
        rf"after step (\d+), from results/tiny/runs/{re.escape(run)}/checkpoint.pt",
        output,
    )
    assert message and int(message[1]) == int(message[3]) + 1, output
    assert "Traceback" not in output and not (folder.path / target).exists()
    state = torch.load(checkpoint, weights_only=True)
    assert finite(state) and len(state["history"]) == int(message[3])
    folder.set("training.learning_rate", 3e-3)
    folder.snakemake(target)
    history = tables.read(folder.path / target)
    assert len(history) == 26 and np.isfinite(history["loss"]).all()
    assert not checkpoint.exists()
