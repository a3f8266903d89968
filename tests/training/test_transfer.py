"""Few-shot transfer: draws, fits, linear probes, config, and a whole study."""

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
from headspec.config.sections.training import Training
from headspec.config.sections.transfer import Transfer
from headspec.data import planned
from headspec.data.few_shot import check_draws, few_shot
from headspec.errors import ConfigError, DataError
from headspec.models.multitask import MultiTask
from headspec.training.checkpoint import Checkpoint
from headspec.training.transfer import Fitting, Target, batches, probed, transfer
from support.running.studies import CONFIG, Folder, texts
from support.schemas import SCHEMAS
from support.tiny import CPU, encoder
from support.two_tasks import dies_after, weights

CLASSES = ["low", "high"]
TRAINING = Training(learning_rate=2e-3)
SETTINGS = Transfer(samples=[4, 16], draws=2, steps=12, batch_size=8)


def data(n: int, seed: int, scores: bool = False) -> pd.DataFrame:
    """Token sequences whose label depends on the first token, one of ten."""
    rng = np.random.default_rng(seed)
    ids = [[rng.integers(1, 11) * 8, *rng.integers(10, 90, rng.integers(3, 8))] for _ in range(n)]
    label = [i[0] / 10 if scores else float(i[0] > 44) for i in ids]
    columns = {"example": range(n), "label": label, "input_ids": ids, "token_type_ids": [None] * n}
    return pd.DataFrame(columns)


def drawn(train: pd.DataFrame, settings: Transfer = SETTINGS) -> pd.DataFrame:
    return few_shot("t", train["label"].round(0), settings.samples, settings.draws, 0)


def model(seed: int = 0, classes: list[str] | None = CLASSES, **settings: Any) -> MultiTask:
    quiet = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return MultiTask(encoder("bert", seed, **quiet | settings), "first", {"t": classes})


def run(folder: Path, net: MultiTask, settings: Transfer = SETTINGS, seconds: float = 1e9) -> pd.DataFrame:
    torch.set_num_threads(1)
    scores = net.classifier("t").out_features == 1
    train, validation = data(60, 1, scores), data(40, 2, scores)
    metrics = ["spearman", "pearson"] if scores else ["accuracy", "f1"]
    checkpoint = Checkpoint(folder / "checkpoint.pt", "f", seconds)
    target = Target("t", train, validation, drawn(train, settings), metrics)
    return transfer(net, target, Fitting(settings, TRAINING, 0, CPU), checkpoint)


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
    pd.testing.assert_frame_equal(one, few_shot("t", labels, [16], 5, 0))
    longer = few_shot("t", labels, [4, 16], 7, 0)  # more draws or sizes do not change the others
    pd.testing.assert_frame_equal(one, longer[longer["draw"] < 5])
    for other in (few_shot("t", labels, [16], 5, 1), few_shot("u", labels, [16], 5, 0)):
        assert not one.equals(other)


def test_too_few_examples_or_samples():
    labels = pd.Series(list("abc") * 10)
    with pytest.raises(DataError) as caught:
        few_shot("t", labels, [2, 16, 100], 2, 0)
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
def test_every_fit_starts_from_the_same_encoder(tmp_path, monkeypatch, decay):
    monkeypatch.setitem(globals(), "TRAINING", Training(learning_rate=2e-3, weight_decay=decay))
    net = model()
    before = weights(net.encoder)
    several = run(tmp_path, net)
    for name, value in weights(net.encoder).items():
        assert torch.equal(value, before[name]), name
    alone = run(tmp_path, model(), SETTINGS.model_copy(update={"samples": [16], "tuning": ["full"]}))
    chosen = several[(several["samples"] == 16) & (several["tuning"] == "full")].reset_index(drop=True)
    pd.testing.assert_frame_equal(alone, chosen)


def test_a_linear_probe_does_not_change_the_encoder(tmp_path, monkeypatch):
    monkeypatch.setattr("headspec.training.transfer.tune", None)
    net = model()
    before = weights(net.encoder)
    run(tmp_path, net, SETTINGS.model_copy(update={"tuning": ["linear"]}))
    assert all(torch.equal(value, before[name]) for name, value in weights(net.encoder).items())


def test_a_linear_probe_of_any_kind_of_scores_is_ridge_regression(tmp_path):
    """Not only of regression: a plugin's kind may predict scores, too."""
    linear = SETTINGS.model_copy(update={"tuning": ["linear"], "samples": [60]})
    expected, net = run(tmp_path, model(classes=None), linear), model(classes=None)
    net.classes = {"t": {"type": "poisson"}}  # whose head is that of regression
    assert run(tmp_path, net, linear).equals(expected)


def test_initial_classifiers_are_the_same_for_every_encoder(tmp_path, monkeypatch):
    """The classifiers of the model that is passed in are not used."""
    initial: list[list[torch.Tensor]] = []

    def tuned(net, *args):
        initial[-1].append(net.classifiers[0].weight.detach().clone())
        return args[-1]

    monkeypatch.setattr("headspec.training.transfer.tune", tuned)
    for seed in (0, 5):
        initial.append([])
        torch.manual_seed(seed)
        run(tmp_path, model(seed))
    assert len(initial[0]) == 4
    assert all(torch.equal(a, b) for a, b in zip(*initial, strict=True))
    assert torch.equal(initial[0][0], initial[0][2])  # same draw, other number of samples
    assert not torch.equal(initial[0][0], initial[0][1])  # other draw


@pytest.mark.slow
def test_a_label_that_depends_on_the_first_token_is_learnt(tmp_path):
    settings = Transfer(samples=[8, 60], draws=2, steps=120, batch_size=16)
    table = run(tmp_path, model(), settings)
    means = table[table["metric"] == "accuracy"].groupby(["tuning", "samples"])["value"].mean()
    assert means["full", 60] > 0.8
    assert means["full", 60] > means["full", 8]
    assert (table.loc[table["metric"] == "accuracy", "chance"] < 0.7).all()


@pytest.mark.slow
def test_scores_are_learnt(tmp_path):
    settings = Transfer(samples=[60], draws=2, steps=150, batch_size=16)
    table = run(tmp_path, model(classes=None), settings)
    assert table["metric"].unique().tolist() == ["spearman", "pearson"]
    means = table.groupby(["tuning", "metric"])["value"].mean()
    assert means["full", "pearson"] > 0.5
    assert table["chance"].eq(0).all()


@pytest.mark.slow
def test_a_job_that_was_killed_continues_to_the_same_table(tmp_path):
    with_dropout = {"hidden_dropout_prob": 0.1}
    undisturbed = run(tmp_path, model(**with_dropout))
    with dies_after(2 * 5, "rows"):  # two metrics; all linear fits and one full fit
        run(tmp_path, model(**with_dropout), seconds=0)
    resumed = run(tmp_path, model(**with_dropout))
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
    predicted = probed(train, labels, train, False, penalty)
    assert 0 < labels.mean() < 0.5 and (predicted == labels).all() == fitted
    assert fitted or (predicted == 0).all()


@pytest.mark.parametrize("scores", [False, True])
def test_location_and_scale_of_the_vectors_do_not_matter(scores):
    train, test = vectors(12, 8, 0), vectors(50, 8, 1)
    labels = (np.arange(12) % 3).astype(float)
    one = probed(train, labels, test, scores, 1.0)
    other = probed(1000 * train + 7, labels, 1000 * test + 7, scores, 1.0)
    np.testing.assert_allclose(one, other, atol=1e-6)


def test_vectors_that_are_all_the_same():
    same = np.ones((4, 3))
    labels = np.array([0.0, 1.0, 1.0, 1.0])
    assert (probed(same, labels, same, False, 1.0) == 1).all()
    np.testing.assert_allclose(probed(same, labels, same, True, 1.0), 0.75)


# --- the config ---------------------------------------------------------------------------------


def config(transfer: dict[str, Any], **iat: Any) -> dict[str, Any]:
    changed = yaml.safe_load(yaml.safe_dump(CONFIG))
    changed["tasks"] |= {"topic-pair": {"pairs_of": "topic"}, "tone-pair": {"pairs_of": "tone"}}
    return changed | {"iat": {"mixtures": ["tone+topic"]} | iat, "transfer": {"tasks": ["match"]} | transfer}


@pytest.mark.parametrize(
    ("wrong", "fragments"),
    [
        (config({"tasks": ["macth"]}), ["transfer.tasks.0: no task 'macth'", "Did you mean 'match'?"]),
        (
            config({"tasks": ["match", "tone"]}),
            ["transfer.tasks.1: got 'tone', a task of 'tone+topic' in iat.mixtures; expected a task that"],
        ),
        (
            config({"tasks": ["topic-pair"]}),
            ["transfer.tasks.0: got 'topic-pair', which has the texts of 'topic', a task of 'tone+topic'"],
        ),
        (
            config({"methods": ["iat-bottom"]}),
            ["transfer.methods.0: got 'iat-bottom', expected 'bottom' in iat.controls, to train it."],
        ),
        (
            config({"methods": ["rewarmed"]}),
            ["transfer.methods.0: got 'rewarmed', expected iat.rate: rewarmed, to train it."],
        ),
        (config({"methods": ["tunde"]}), ["transfer.methods.0: got 'tunde'", "Did you mean 'tuned'?"]),
        (config({"draws": 1}), ["transfer.draws: got 1, expected integer >= 2."]),
        (config({"samples": [4, 4]}), ["transfer.samples: 4 is listed twice"]),
    ],
)
def test_wrong_configs(wrong, fragments):
    with pytest.raises(ConfigError) as caught:
        load(wrong)
    message = str(caught.value)
    assert "\n" not in message and message.startswith(fragments[0])
    assert all(fragment in message for fragment in fragments), message


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
        ({"samples": [1, 4]}, "transfer.samples.0: got 1, expected at least 2, one example of every class"),
        ({"tasks": ["gone"]}, "tasks.gone"),
    ],
)
def test_unusable_data_is_refused_while_planning(tmp_path, monkeypatch, transfer, message):
    texts(tmp_path / "texts")
    monkeypatch.chdir(tmp_path)
    wanted = config(transfer)
    if "gone" in transfer.get("tasks", []):
        wanted["tasks"]["gone"] = {"source": "texts/gone.tsv"}
    with pytest.raises(DataError, match=message):
        check_draws(load(wanted), planned.prepare_tasks(load(wanted)).prepared)


# --- a whole study ------------------------------------------------------------------------------


@pytest.mark.slow
def test_transfer_of_a_tiny_study(tmp_path):
    folder = Folder.new(tmp_path / "study")
    wanted = config(
        {"methods": ["pretrained", "tuned"], "steps": 5, "samples": [4, 16], "draws": 2}, reserve=0.2
    )
    folder.write(wanted | {"seeds": [0]} | {"training": {"epochs": 1, "learning_rate": "3e-3"}})
    target = "results/tiny/tables/transfer.parquet"
    plan = folder.plan(target)
    expected = {
        "validation": 3,
        "data": 3,
        "tokenize": 3,
        "few_shot": 1,
        "train_and_keep": 1,
        "transfer": 2,
        "transfer_scores": 1,
    }
    assert plan.rules == expected
    folder.snakemake(target, "results/tiny/figures/transfer.bert.match.png")
    table = tables.read(folder.results / "tables" / "transfer.parquet")
    keys = ["model", "task", "mixture", "method", "tuning", "samples", "seed", "draw", "metric"]
    assert not table.duplicated(keys).any() and len(table) == 2 * 2 * 2 * 2
    assert set(table["mixture"] + "/" + table["method"]) == {"none/pretrained", "tone+topic/tuned"}
    assert table["value"].between(0, 1).all()
    means = tables.read(folder.results / "tables" / "transfer_summary.parquet")
    pair = means[(means["samples"] == 16) & (means["tuning"] == "linear")].set_index("method")
    raw = table[(table["samples"] == 16) & (table["tuning"] == "linear")].groupby("method")["value"].mean()
    assert pair.loc["pretrained", "difference"] == pytest.approx(raw["pretrained"] - raw["tuned"])
    assert folder.plan(target).rules == {}
    jobs = folder.plan("iat").rules
    assert jobs["retrain"] == 2 and jobs["evaluate"] == 5  # iat and its control; transfer is up to date
    assert not {"transfer", "transfer_scores", "figure_training_transfer"} & set(jobs)
    folder.set("transfer.samples", [4, 16, 500])
    assert "transfer.samples.2: got 500, expected at most" in folder.snakemake("-n", "iat", fails=True)
