"""Few-shot transfer: draws, fits, linear probes, and config."""

import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from headspec import tables
from headspec.config.loading import load
from headspec.config.sections.iat import Transfer
from headspec.config.sections.training import Training
from headspec.data import tasks_read
from headspec.data.few_shot import check_draws, few_shot
from headspec.errors import ConfigError, DataError
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.transfer import Fitting, Target, batches, probed, transfer
from support.running.studies import CONFIG, texts
from support.schemas import SCHEMAS
from support.tiny import CPU, encoder
from support.two_tasks import dies_after, weights

CLASSES = ["low", "high"]
SETTINGS = Transfer(samples=[4, 16], draws=2, steps=12, batch_size=8)


def data(n: int, seed: int, scores: bool) -> pd.DataFrame:
    """Token sequences whose label depends on the first token, one of ten."""
    rng = np.random.default_rng(seed)
    ids = [[rng.integers(1, 11) * 8, *rng.integers(10, 90, rng.integers(3, 8))] for _ in range(n)]
    label = [i[0] / 10 if scores else float(i[0] > 44) for i in ids]
    return pd.DataFrame({"example": range(n), "label": label, "input_ids": ids, "token_type_ids": None})


def model(seed: int = 0, classes: list[str] | None = CLASSES, dropout: float = 0.0) -> MultiTask:
    rates = {"hidden_dropout_prob": dropout, "attention_probs_dropout_prob": 0.0}
    return MultiTask(encoder("bert", seed, **rates), "first", {"t": classes})


def run(folder: Path, net: MultiTask, seconds: float = 1e9, decay: float = 0.0, **changed) -> pd.DataFrame:
    torch.set_num_threads(1)
    wanted, scores = SETTINGS.model_copy(update=changed), net.classifier("t").out_features == 1
    train, validation = data(60, 1, scores), data(40, 2, scores)
    draws = few_shot("t", train["label"].round(0), wanted.samples, wanted.draws, 0)
    target = Target("t", train, validation, draws, ["spearman", "pearson"] if scores else ["accuracy", "f1"])
    fitting = Fitting(wanted, Training(learning_rate=2e-3, weight_decay=decay), 0, CPU)
    return transfer(net, target, fitting, Checkpoint(folder / "checkpoint.pt", "f", seconds))


# --- draws --------------------------------------------------------------------------------------


@settings(max_examples=settings().max_examples // 3)
@given(st.lists(st.integers(1, 40), min_size=2, max_size=5), st.integers(0, 99))
def test_small_samples_are_nested_in_large_ones_and_have_every_class(sizes, seed):
    labels = pd.Series(np.repeat([f"class {i}" for i in range(len(sizes))], sizes))
    counts = sorted({len(sizes), (len(sizes) + len(labels)) // 2, len(labels)})
    frame = few_shot("t", labels, counts, 3, seed)
    shares = np.array(sizes) / len(labels)
    for _, part in frame.groupby("draw"):
        assert part["place"].tolist() == list(range(max(counts)))
        assert part["example"].is_unique
        for n in counts:
            per_class = labels[part["example"][:n]].value_counts().reindex(labels.unique(), fill_value=0)
            assert per_class.min() >= 1
            # rounding of each class, and examples given to classes that would have had none
            assert (np.abs(per_class.to_numpy() - n * shares) <= len(sizes)).all()


def test_draws_differ_and_depend_on_seed_and_task():
    labels = pd.Series(list("ab") * 50)
    one = few_shot("t", labels, [16], 5, 0)
    assert len({tuple(part["example"]) for _, part in one.groupby("draw")}) == 5
    longer = few_shot("t", labels, [4, 16], 7, 0)  # more draws or sizes do not change the others
    pd.testing.assert_frame_equal(one, longer[longer["draw"] < 5])
    for other in (few_shot("t", labels, [16], 5, 1), few_shot("u", labels, [16], 5, 0)):
        assert not one.equals(other)


def test_too_few_examples_or_samples():
    with pytest.raises(DataError) as caught:
        few_shot("t", pd.Series(list("abc") * 10), [2, 16, 100], 2, 0)
    assert str(caught.value).splitlines() == [
        "transfer.samples.0: got 2, expected at least 3, one example of every class of 't'",
        "transfer.samples.2: got 100, expected at most 30, the training examples of 't'",
    ]


@settings(max_examples=settings().max_examples // 3)
@given(st.integers(1, 30), st.integers(1, 20), st.integers(1, 12))
def test_batches_use_every_row_equally_often(n, size, steps):
    taken = list(batches(n, size, steps, np.random.default_rng(0)))
    assert [len(rows) for rows in taken] == [min(n, size)] * steps
    counts = np.bincount(np.concatenate(taken), minlength=n)
    assert counts.max() - counts.min() <= 1


# --- fits ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("decay", [0.0, 0.1])
def test_every_fit_starts_from_the_same_encoder(tmp_path, decay):
    net = model()
    before = weights(net.encoder)
    several = run(tmp_path, net, decay=decay)
    for name, value in weights(net.encoder).items():
        assert torch.equal(value, before[name]), name
    alone = run(tmp_path, model(), decay=decay, samples=[16], tuning=["full"])
    chosen = several[(several["samples"] == 16) & (several["tuning"] == "full")].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, chosen)


def test_a_linear_probe_of_any_kind_of_scores_is_ridge_regression(tmp_path):
    """Not only of regression: a plugin's kind may predict scores, too."""
    regression, other = model(classes=None), model(classes=None)
    other.classes = {"t": {"type": "poisson"}}  # has the head of regression
    tables = [run(tmp_path, net, tuning=["linear"], samples=[60]) for net in (regression, other)]
    assert tables[0].equals(tables[1])


def test_initial_classifiers_are_the_same_for_every_encoder(tmp_path, monkeypatch):
    """The classifiers of the model that is passed in are not used."""
    initial: list[torch.Tensor] = []

    def tuned(net, *args):
        initial.append(net.classifiers[0].weight.detach().clone())
        return args[-1]

    monkeypatch.setattr("headspec.training.transfer.tune", tuned)
    for seed in (0, 5):
        torch.manual_seed(seed)
        run(tmp_path, model(seed))
    assert len(initial) == 8
    assert all(torch.equal(a, b) for a, b in zip(initial[:4], initial[4:], strict=True))
    assert torch.equal(initial[0], initial[2])  # same draw, other number of samples
    assert not torch.equal(initial[0], initial[1])  # other draw


@pytest.mark.slow
def test_labels_and_scores_that_depend_on_the_first_token_are_learnt(tmp_path):
    table = run(tmp_path, model(), samples=[8, 60], steps=120, batch_size=16).query("metric == 'accuracy'")
    means = table.groupby(["tuning", "samples"])["value"].mean()
    assert means["full", 60] > 0.8 and means["full", 60] > means["full", 8]
    assert (table["chance"] < 0.7).all()
    table = run(tmp_path, model(classes=None), samples=[60], steps=150, batch_size=16)
    assert table["metric"].unique().tolist() == ["spearman", "pearson"]
    assert table.query("tuning == 'full' and metric == 'pearson'")["value"].mean() > 0.5
    assert table["chance"].eq(0).all()


@pytest.mark.slow
def test_a_job_that_was_killed_continues_to_the_same_table(tmp_path):
    undisturbed = run(tmp_path, model(dropout=0.1))
    with dies_after(2 * 5, "rows"):  # two metrics; all linear fits and one full fit
        run(tmp_path, model(dropout=0.1), seconds=0)
    resumed = run(tmp_path, model(dropout=0.1))
    for name, frame in {"a": undisturbed, "b": resumed}.items():
        tables.write(tmp_path / name, SCHEMAS["transferred"], frame, {})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


# --- linear probes ------------------------------------------------------------------------------


def vectors(n: int, d: int, seed: int) -> np.ndarray:
    """Centred vectors of mean variance 1."""
    values = np.random.default_rng(seed).normal(size=(n, d))
    values -= values.mean(axis=0)
    return values / np.sqrt((values**2).mean())


def test_ridge_in_closed_form():
    """(X'X + penalty)^-1 X'y, on centred data."""
    train, test = vectors(20, 5, 0), vectors(30, 5, 1)
    labels = train[:, 0] + 3
    weights = np.linalg.solve(train.T @ train + 2 * np.eye(5), train.T @ (labels - labels.mean()))
    predicted = probed(train, labels, test, True, 2.0)
    np.testing.assert_allclose(predicted, labels.mean() + test @ weights, atol=1e-8)


@pytest.mark.parametrize(("penalty", "fitted"), [(0.1, True), (1e6, False)])
def test_a_large_penalty_predicts_the_most_frequent_class(penalty, fitted):
    train = vectors(40, 12, 0)
    labels = (train[:, 0] > 0.6).astype(float)
    assert 0 < labels.mean() < 0.5
    assert (probed(train, labels, train, False, penalty) == (labels if fitted else 0)).all()


@pytest.mark.parametrize("scores", [False, True])
def test_location_and_scale_of_the_vectors_do_not_matter(scores):
    train, test = vectors(12, 8, 0), vectors(50, 8, 1)
    labels = (np.arange(12) % 3).astype(float)
    one = probed(train, labels, test, scores, 1.0)
    other = probed(1000 * train + 7, labels, 1000 * test + 7, scores, 1.0)
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_vectors_that_are_all_the_same():
    same, labels = np.ones((4, 3)), np.array([0.0, 1.0, 1.0, 1.0])
    assert (probed(same, labels, same, False, 1.0) == 1).all()
    np.testing.assert_allclose(probed(same, labels, same, True, 1.0), 0.75)


# --- the config ---------------------------------------------------------------------------------


def config(transfer: dict[str, Any], **iat: Any) -> dict[str, Any]:
    changed = yaml.safe_load(yaml.safe_dump(CONFIG))
    changed["tasks"] |= {"topic-pair": {"pairs_of": "topic"}, "tone-pair": {"pairs_of": "tone"}}
    return changed | {"iat": {"mixtures": ["tone+topic"]} | iat, "transfer": {"tasks": ["match"]} | transfer}


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"tasks": ["macth"]}, "transfer.tasks.0: no task 'macth'.* Did you mean 'match'"),
        ({"tasks": ["match", "tone"]},
         "transfer.tasks.1: got 'tone', a task of 'tone.topic' in iat.mixtures; expected a task that"),
        ({"tasks": ["topic-pair"]},
         "transfer.tasks.0: got 'topic-pair', which has the texts of 'topic', a task of 'tone.topic'"),
        ({"methods": ["iat-bottom"]},
         "transfer.methods.0: got 'iat-bottom', expected 'bottom' in iat.controls, to train it."),
        ({"methods": ["rewarmed"]},
         "transfer.methods.0: got 'rewarmed', expected iat.rate: rewarmed, to train it."),
        ({"methods": ["tunde"]}, "transfer.methods.0: got 'tunde'.* Did you mean 'tuned'"),
        ({"draws": 1}, "transfer.draws: got 1, expected integer >= 2."),
        ({"samples": [4, 4]}, "transfer.samples: 4 is listed twice"),
    ],
)  # fmt: skip
def test_wrong_configs(wrong, message):
    with pytest.raises(ConfigError) as caught:
        load(config(wrong))
    assert re.match(message, str(caught.value)) and "\n" not in str(caught.value)


def test_texts_of_a_pair_task_in_the_mixture_are_a_leak():
    wrong = config({"tasks": ["topic"]}, mixtures=["pairs"])
    wrong["mixtures"] = {"groups": {"pairs": ["topic-pair", "tone"]}}
    with pytest.raises(ConfigError, match="has the texts of 'topic-pair', a task of 'pairs'"):
        load(wrong)


def test_runs_that_are_transferred():
    study = load(config({"methods": ["pretrained", "single", "iat", "iat-random"]}))
    paths = [run.path for run in study.transfer_runs if run.seed == 0]
    assert paths == [
        "bert/none/pretrained/seed0", "bert/tone+topic/iat/seed0", "bert/tone+topic/iat-random/seed0",
        "bert/tone/single/seed0", "bert/topic/single/seed0",
    ]  # fmt: skip
    trained = {run.path for run in study.iat_runs}
    assert {run.path for run in study.transfer_runs if run.method != "pretrained"} <= trained
    assert load(config({"tasks": []})).transfer_runs == []
    alone = load(config({"methods": ["pretrained"]}, mixtures=[]))
    assert [run.path for run in alone.transfer_runs] == [f"bert/none/pretrained/seed{s}" for s in (0, 1)]


@pytest.mark.parametrize(
    ("transfer", "message"),
    [
        ({"samples": [4, 500]}, "transfer.samples.1: got 500, expected at most 180, the training examples"),
        ({"tasks": ["gone"]}, "tasks.gone"),
    ],
)
def test_unusable_data_is_refused_while_planning(tmp_path, monkeypatch, transfer, message):
    texts(tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    wanted = config(transfer)
    if "tasks" in transfer:
        wanted["tasks"]["gone"] = {"source": "texts/gone.tsv"}
    with pytest.raises(DataError, match=message):
        check_draws(load(wanted), tasks_read.prepare_tasks(load(wanted)).prepared)
