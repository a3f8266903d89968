"""Sets of labels: how they are read, their metrics compared with scikit-learn, and their head."""

import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn import metrics as sk

from headspec.config.sections.task import Task
from headspec.errors import DataError
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.texts import metrics
from headspec.tasks.kinds.texts.data import LABELS_DATA as DATA
from headspec.tasks.kinds.texts.label_sets import indicators, parsed
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


JOY = [["joy", "love"], ["fear"], []]
ALONE = [["joy"], ["fear", "love"], ["love"]]
PAIRS = [["high positive"], ["low positive"], ["high low"]]
NUMBERS = [["27", "4"], ["3"], []]
NAMED = {"27": "neutral", "4": "approval", "3": "anger"}


@pytest.mark.parametrize(
    ("cells", "settings", "expected"),
    [
        (["joy,love", " fear ", "[]"], {}, JOY),
        (['["love", "joy"]', "['fear']", "[]"], {}, JOY),
        (["['love' 'joy']", "fear", "[ ]"], {}, JOY),
        ([["love", "joy"], ["fear"], []], {}, JOY),
        ([np.array(["joy", "love"]), np.array(["fear"]), np.array([])], {}, JOY),
        (["4,27", "3", "[]"], {}, NUMBERS),
        ([[4, 27], [3], []], {}, NUMBERS),
        ([np.array([4.0, 27]), [3], ()], {}, NUMBERS),
        ([4, 27], {}, [["4"], ["27"]]),
        (["4,27", "3", "[]"], {"labels": NAMED}, [["approval", "neutral"], ["anger"], []]),
        (["joy,love", "fear"], {"labels": {"joy": "+", "love": "+", "fear": "-"}}, [["+"], ["-"]]),
        # several labels between something else, which are labels elsewhere
        *(
            ([f"joy{joint}love", "fear", "[]", "joy", f"love{joint}fear", "love"], {}, [*JOY, *ALONE])
            for joint in (*";|#+_\\；、 \n", "::", "||", "  ", " ; ", " & ", "، ")
        ),
        (["joy;love;", "fear;", "[]", "joy;", "love;fear", "love"], {}, [*JOY, *ALONE]),
        ([["joy"], "joy;love", ["love"]], {}, [["joy"], ["joy", "love"], ["love"]]),
        (
            ["joy and love", "fear", "joy", "love", "joy and fear"],
            {},
            [*JOY[:2], ["joy"], ["love"], ["fear", "joy"]],
        ),
        # what programs write
        ([{"joy": 1, "love": True, "fear": 0}, {"fear": 1.0}, {"joy": None}], {}, JOY),
        (["{'joy': 1, 'love': 1}", '{"fear": true, "joy": false}', "{}"], {}, JOY),
        (["('joy', 'love')", "('fear',)", "()"], {}, JOY),
        (["{'joy', 'love'}", "{'fear'}", "set()"], {}, JOY),
        (["frozenset({'joy', 'love'})", "frozenset({'fear'})", "frozenset()"], {}, JOY),
        (["'joy', 'love'", '"fear"', "[]"], {}, JOY),
        (["(joy, love)", "(fear)", "(joy)"], {}, [*JOY[:2], ["joy"]]),
        ([[("joy", 1), ("love", 1)], [("fear", True), ("joy", False)], []], {}, JOY),
        (["joy;love", "joy,fear"], {"labels": EMOTIONS}, [["joy", "love"], ["fear", "joy"]]),
        (["4;27", "3", "[]"], {"labels": NAMED}, [["approval", "neutral"], ["anger"], []]),
        (["very happy; sad", "very happy", "sad"], {}, [["sad", "very happy"], ["very happy"], ["sad"]]),
        # names with spaces
        (["new york", "new jersey", "utah"], {}, [["new york"], ["new jersey"], ["utah"]]),
        (["no finding", "effusion"], {}, [["no finding"], ["effusion"]]),
        # a separator of the config
        *(
            (["joy;love", " fear ", "[]"], {"separator": joint}, [["joy;love"], ["fear"], []])
            for joint in ",/"
        ),
        *(
            ([f"joy{joint}love{joint}", "fear", "[]"], {"separator": joint}, JOY)
            for joint in (";", "/", "&", " ")
        ),
        (["a, b; c", "c"], {"separator": ";"}, [["a, b", "c"], ["c"]]),
        (["high positive", "low positive", "high low"], {"separator": ","}, PAIRS),
    ],
    ids=str,
)
def test_a_cell_is_a_list_of_names_in_any_way_of_writing(cells, settings, expected):
    assert read(cells, **settings) == expected


@pytest.mark.parametrize(
    ("zero", "one"), [(0, 1), (0.0, 1.0), ("0", "1"), ("0.0", "1.0"), (False, True), ("False", "True")]
)
def test_labels_may_have_columns_of_flags(zero, one):
    cells = {"joy": [one, zero, zero], "love": [one, one, zero], "fear": [zero, zero, zero]}
    assert read(cells, label=EMOTIONS) == [["joy", "love"], ["love"], []]


def test_classes_are_in_the_order_of_the_config_or_of_columns_else_sorted():
    def classes(**settings):
        return DATA.classes(task(**settings), pd.Series(['["love"]', '["joy", "love"]', "[]"]))

    assert classes() == {"type": "labels", "labels": ["joy", "love"]}
    assert classes(label=EMOTIONS)["labels"] == EMOTIONS
    assert classes(labels=NAMED)["labels"] == ["neutral", "approval", "anger"]


@pytest.mark.parametrize(
    ("cells", "settings", "message"),
    [
        (["joy", None], {}, "tasks.t.label: 1 of 2 rows of x.csv have no label; the first is row 2"),
        (["joy", " "], {}, 'set tasks.t.unlabelled to "". For texts with none of the labels, write [].'),
        (["joy", "joy,,love"], {}, "row 2 of x.csv has 'joy,,love', of which a label is empty"),
        (["joy,joy"], {}, "with 'joy' twice, expected each label once"),
        ([[0, 1, 0]], {}, "'0' twice, expected each label once; for 0 and 1, name a column for each label"),
        ([[["joy"], ["love"]]], {}, "has [['joy'], ['love']], expected a list of names"),
        *((["joy", cell], {}, f"row 2 of x.csv has '{cell}', which is not a list")
            for cell in ("[joy love]", "[(]", "[0 1 ... 9]")),
        # values that are no names
        *(([cell, ["joy"]], {}, "with the fraction 0.5, expected names")
            for cell in ([1.0, 0.5], "(0.5, 1)")),
        *(([cell, {"joy": 1}], {}, "with 2 for 'joy', expected 0 or 1")
            for cell in ({"joy": 2}, "{'joy': 2}")),
        *((cells, {}, "all rows have 2 times 0 or 1, expected names; for 0 and 1, name a column for each")
            for cells in ([[0, 1], [1, 0]], ["[0, 1]", "[1, 0]"], ["0,1", "1,0"], [[True, False]] * 2)),
        # a word that joins one name, and labels of which only some stand alone
        (["joy", "fear", "joy and fear"], {}, "with ' and ' between them, but not all of them"),
        (["joy", "fear", "joy#fear", "joy#love"], {},
            "has 'joy#love', which looks like several labels with '#'"),
        (["joy", "joy ، fear"], {}, "set tasks.t.separator to ' ، '"),
        (["joy", "joy||fear"], {}, "set tasks.t.separator to '||'"),
        (["joy", '"[""joy"", ""love""]"'], {}, "which is not a list"),  # pandas' TSV, without quotes
        (["[]", "[joy, love"], {}, "row 2 of x.csv has '[joy, love', which is not a list"),
        *((["fear", f"joy{joint}fear", "love"], {}, f"row 2 of x.csv has 'joy{joint}fear', which looks like "
            f"several labels with '{joint}' between them, but not all of them are labels elsewhere; to split "
            f"such cells, set tasks.t.separator to '{joint}', to keep them whole, to ','")
            for joint in ";|；、"),
        *((cells, {}, f"row {row} of x.csv has {cells[row - 1]!r}, which looks like several labels with ' '")
            for cells, row in ((["joy fear", "fear love", "love joy"], 2), (["a", "b", "a b", "b c"], 4))),
        (["joy;;fear", "joy", "fear"], {"separator": ";"}, "of which a label is empty"),
        (["joy;joy", "joy", "fear"], {}, "with 'joy' twice"),
        (["joy;joi"], {"labels": EMOTIONS}, "row 1 of x.csv has 'joy;joi', which looks like several labels"),
        (["joy,fear", ["fear", "joy"]], {}, "a task of type labels needs at least two sets of labels"),
        ({"joy": [0, 1], "love": [1, 2]}, {"label": ["joy", "love"]},
            "tasks.t.label: row 2 of x.csv has '2' in column 'love', expected 0 or 1 (1 of 2 rows)"),
        (["joy", "fear,joi"], {"labels": EMOTIONS},
            "tasks.t.labels: row 2 of x.csv has label 'joi'; the labels are joy, love, fear. Did you mean"),
    ],
)  # fmt: skip
def test_cells_that_are_no_sets_of_labels_are_refused(cells, settings, message):
    with pytest.raises(DataError, match=r"^tasks\.t\.label") as error:
        read(cells, **settings)
    assert message in str(error.value)


def test_labels_that_training_lacks_are_refused():
    valid, labels = {"type": "labels", "labels": EMOTIONS}, pd.Series(["[]", '["fear", "joi"]'])
    said = "^k: row 2 of x.csv has label 'joi'; the labels of the training split are joy, love, fear"
    with pytest.raises(DataError, match=said):
        DATA.check_labels(labels, valid, "k", "x.csv")
    DATA.check_labels(labels[:1], valid, "k", "x.csv")


def test_sets_are_rows_of_zero_and_one_and_subsets_keep_the_shares_of_rare_labels():
    assert indicators(['["joy", "fear"]', "[]"], EMOTIONS).tolist() == [[1, 0, 1], [0, 0, 0]]
    sets = pd.Series(['["joy"]'] * 3 + ['["joy", "love"]', "[]"])
    assert DATA.strata(pd.DataFrame({"label": sets})).tolist() == ["joy"] * 3 + ["love", ""]


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
    likely = model.logits("emotions", states).double().sigmoid()
    entropy = -(targets * likely.log() + (1 - targets) * (1 - likely).log()).mean(1)
    torch.testing.assert_close(model.losses("emotions", states, targets).double(), entropy)


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
    states[1, 0] = torch.inf
    assert model.predict("emotions", states).values.isnan().all(1).tolist() == [False, True, *[False] * 48]
