"""Sets of labels: how they are read, their metrics compared with scikit-learn, and their loss with torch."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk
from torch.nn import functional as F

from headspec.config.loading import load
from headspec.config.sections.task import Task
from headspec.errors import ConfigError, DataError
from headspec.models.multitask import MultiTask
from headspec.tasks.labels import metrics
from headspec.tasks.labels.data import DATA
from headspec.tasks.labels.sets import indicators, parsed
from headspec.tasks.metrics import chance, score
from support import tiny

EMOTIONS = ["joy", "love", "fear"]


def task(**settings):
    return Task(source="x.csv", type="labels", **settings)


def read(cells, **settings):
    """The sets of labels in cells of the column label, or in a table of columns."""
    frame = pd.DataFrame(cells if isinstance(cells, dict) else {"label": pd.Series(cells)})
    rows = DATA.rows(frame.assign(text="a"), task(**settings), "tasks.t", "x.csv")
    return rows["label"].map(parsed).tolist()


@pytest.mark.parametrize(
    "cells",
    [
        ["joy,love", " fear ", "[]"],
        ['["love", "joy"]', "['fear']", "[]"],
        ["['love' 'joy']", "fear", "[ ]"],
        [["love", "joy"], ["fear"], []],
        [np.array(["joy", "love"]), np.array(["fear"]), np.array([])],
    ],
)
def test_a_cell_is_a_list_in_any_way_of_writing(cells):
    assert read(cells) == [["joy", "love"], ["fear"], []]


@pytest.mark.parametrize("cells", [["4,27", "3", "[]"], [[4, 27], [3], []], [np.array([4.0, 27]), [3], ()]])
def test_numbers_are_names(cells):
    assert read(cells) == [["27", "4"], ["3"], []]
    assert read([4, 27]) == [["4"], ["27"]]


@pytest.mark.parametrize("one", [1, 1.0, "1", "1.0", True, "True"])
def test_columns_of_flags(one):
    zero = type(one)(0) if not isinstance(one, str) else {"1": "0", "1.0": "0.0", "True": "False"}[one]
    cells = {"joy": [one, zero, zero], "love": [one, one, zero], "fear": [zero, zero, zero]}
    assert read(cells, label=EMOTIONS) == [["joy", "love"], ["love"], []]


def test_labels_name_and_order_what_is_stored():
    named = {"27": "neutral", "4": "approval", "3": "anger"}
    assert read(["4,27", "3", "[]"], labels=named) == [["approval", "neutral"], ["anger"], []]
    classes = DATA.classes(task(labels=named), pd.Series(['["anger"]', "[]"]))
    assert classes == {"type": "labels", "labels": ["neutral", "approval", "anger"]}
    same = {"joy": "good", "love": "good", "fear": "bad"}
    assert read(["joy,love", "fear"], labels=same) == [["good"], ["bad"]]


def test_classes_are_sorted_or_those_of_columns():
    sets = pd.Series(['["love"]', '["joy", "love"]', "[]"])
    assert DATA.classes(task(), sets)["labels"] == ["joy", "love"]
    assert DATA.classes(task(label=EMOTIONS), sets)["labels"] == EMOTIONS


@pytest.mark.parametrize(
    ("cells", "message"),
    [
        (["joy", None], "1 of 2 rows of x.csv have no label; the first is row 2"),
        (["joy", " "], "tasks.t.filter. For texts with none of the labels, write []."),
        (["joy", "joy,,love"], "row 2 of x.csv has 'joy,,love', of which a label is empty"),
        (["joy,joy"], "with 'joy' twice, expected each label once"),
        ([[0, 1, 0]], "'0' twice, expected each label once; for 0 and 1, name a column for each label"),
        ([[["joy"], ["love"]]], "has [['joy'], ['love']], expected a list of names"),
        (["joy", "[joy love]"], "row 2 has '[joy love]', which is no list in column 'label'"),
        (["joy", '"[""joy"", ""love""]"'], "which is no list"),  # as pandas writes TSV, which has no quotes
        (["[]", "[joy, love"], "row 2 of x.csv has '[joy, love', which is no list"),
    ],
)
def test_cells_that_are_no_lists(cells, message):
    with pytest.raises(DataError, match="^tasks.t.label: ") as error:
        read(cells)
    assert message in str(error.value)


def test_flags_that_are_no_flags():
    with pytest.raises(DataError, match="row 2 of x.csv has '2' in column 'love', expected 0 or 1"):
        read({"joy": [0, 1], "love": [1, 2]}, label=["joy", "love"])


def test_labels_that_are_not_listed():
    with pytest.raises(DataError, match=r"tasks.t.labels: row 2 of x.csv has label 'joi'.*mean 'joy'"):
        read(["joy", "fear,joi"], labels=EMOTIONS)


def test_labels_that_training_lacks():
    valid = {"type": "labels", "labels": EMOTIONS}
    labels = pd.Series(["[]", '["fear", "joi"]'])
    with pytest.raises(
        DataError, match="row 2 of x.csv has label 'joi'; the labels of the training split are"
    ):
        DATA.check_labels(labels, valid, "tasks.t.label", "x.csv")
    DATA.check_labels(labels[:1], valid, "tasks.t.label", "x.csv")


def test_one_set_is_nothing_to_learn():
    with pytest.raises(DataError, match="a labels task needs at least two sets of labels"):
        read(["joy,fear", ["fear", "joy"]])


def test_subsets_keep_the_shares_of_rare_labels():
    sets = pd.Series(['["joy"]'] * 3 + ['["joy", "love"]', "[]"])
    assert DATA.strata(pd.DataFrame({"label": sets})).tolist() == ["joy"] * 3 + ["love", ""]


def test_rows_of_zero_and_one():
    rows = indicators(['["joy", "fear"]', "[]"], EMOTIONS)
    assert rows.tolist() == [[1, 0, 1], [0, 0, 0]]


# --- metrics


@st.composite
def samples(draw):
    """Labels and probabilities (n, k), with ties, empty rows and labels without an example."""
    n, k = draw(st.integers(1, 8)), draw(st.integers(2, 5))

    def table(values):
        return np.array([draw(st.lists(values, min_size=k, max_size=k)) for _ in range(n)], dtype=float)

    return table(st.integers(0, 1)), table(st.integers(0, 8).map(lambda v: v / 8))


REFERENCE = {
    "micro_f1": lambda label, likely: sk.f1_score(label, likely >= 0.5, average="micro", zero_division=0),
    "macro_f1": lambda label, likely: sk.f1_score(label, likely >= 0.5, average="macro", zero_division=0),
    "lrap": sk.label_ranking_average_precision_score,
}


@pytest.mark.parametrize("metric", REFERENCE)
@given(samples())
def test_scores_are_those_of_scikit_learn(metric, sample):
    label, likely = sample
    assert score(metric, label, likely) == pytest.approx(REFERENCE[metric](label, likely))
    counts = np.random.default_rng(0).integers(0, 3, (3, len(label)))
    counts[:, 0] = 2
    repeated = [REFERENCE[metric](*(np.repeat(of, each, axis=0) for of in sample)) for each in counts]
    assert score(metric, label, likely, counts) == pytest.approx(repeated)


@pytest.mark.parametrize("metric", ["micro_f1", "macro_f1"])
@given(samples())
def test_chance_is_the_best_constant_set(metric, sample):
    label, _ = sample
    every = itertools.product([0, 1], repeat=label.shape[1])
    best = max(score(metric, label, np.tile(constant, (len(label), 1))) for constant in every)
    assert chance(metric, label) == pytest.approx(best)


def test_few_constant_rankings_are_better_than_chance():
    """Labels that go together: by less than 0.001 on average, but by over 0.01 than order by frequency."""
    rng = np.random.default_rng(0)
    lacking = []
    for _ in range(30):
        factors = rng.normal(size=(40, 2)) @ rng.normal(size=(2, 4)) + rng.normal(size=(40, 4))
        label = (factors > 0.5).astype(float)
        rankings = np.array([*itertools.permutations(range(4)), label.sum(0)], float)
        rankings = np.repeat(rankings[:, None], len(label), axis=1)
        *every, frequency = metrics.average_precision(label, rankings).mean(1)
        lacking.append([max(every) - chance("lrap", label), max(every) - frequency])
    assert np.min(lacking) > -1e-12
    assert np.mean(lacking, axis=0)[0] < 0.001
    assert np.mean(lacking, axis=0)[1] > 0.01


# --- head


@pytest.fixture
def model():
    classes = {"type": "labels", "labels": EMOTIONS}
    return MultiTask(tiny.encoder("bert"), "mean", {"emotions": classes}).eval()


def test_the_loss_is_the_mean_binary_cross_entropy(model):
    states, targets = torch.randn(4, model.hidden), torch.randint(0, 2, (4, 3)).double()
    losses = model.losses("emotions", states, targets)
    logits = model.logits("emotions", states)
    each = [
        F.binary_cross_entropy_with_logits(row, target.float())
        for row, target in zip(logits, targets, strict=True)
    ]
    assert losses.tolist() == pytest.approx(torch.stack(each).tolist())


def test_predictions_are_probabilities_that_order_as_logits_do(model):
    with torch.no_grad():
        model.classifier("emotions").weight.mul_(100)
    states = torch.randn(50, model.hidden)
    logits, predicted = model.logits("emotions", states).detach(), model.predict("emotions", states)
    assert (logits.amax() > 20) and predicted.values.dtype == torch.float64
    assert (predicted.values.argsort(1) == logits.argsort(1)).all()
    assert ((predicted.values >= metrics.THRESHOLD) == (logits >= 0)).all()
    assert torch.equal(predicted.probabilities, predicted.values.float())
    evidence = model.evidence("emotions", states, None)
    assert evidence.tolist() == pytest.approx(logits.abs().sum(1).tolist())


def test_what_is_not_finite_is_no_prediction(model):
    states = torch.zeros(2, model.hidden)
    states[1, 0] = torch.inf
    assert model.predict("emotions", states).values.isnan().all(1).tolist() == [False, True]


# --- config


def problems(settings, **tasks):
    """What is wrong with a task of labels beside one of classes."""
    both = {"a": {"source": "a.csv", "type": "labels", **settings}, "b": {"source": "b.csv"}, **tasks}
    base = {"study": "s", "models": {"m": {"source": "m"}}, "mixtures": {"pairs": ["a", "b"]}}
    with pytest.raises(ConfigError) as error:
        load(base | {"tasks": both})
    return str(error.value)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"label": ["joy"]}, "tasks.a.label: got the list joy, expected a column of lists of labels, or"),
        ({"label": ["joy", "joy"]}, "tasks.a.label.1: got 'joy', the column of label.0"),
        ({"labels": ["joy"]}, "tasks.a.labels: got joy, expected at least two labels"),
        (
            {"label": ["joy", "love"], "labels": ["joy", "loves"]},
            "tasks.a.labels: lacks 'love', a column of tasks.a.label; expected all of them. Did you",
        ),
        (
            {"label": ["joy", "love"], "labels": ["joy", "love", "lov"]},
            "tasks.a.labels: got 'lov', no column of tasks.a.label; expected its columns",
        ),
        ({"test": {"CoLA": "test"}}, "tasks.a.test: got a value for a task of labels, expected none"),
        ({"prompt": "{text_a}?"}, "tasks.a.prompt: got one for a labels task"),
    ],
)
def test_keys_that_make_no_task(settings, message):
    assert message in problems(settings)


def test_sets_of_labels_are_not_paired():
    assert "tasks.c.pairs_of: got 'a', a labels task" in problems({}, c={"pairs_of": "a"})
