"""Prediction files: formats, order and number of rows, and the splits and runs behind them."""

import zipfile
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from headspec.config.loading import load
from headspec.config.sections.task import Task
from headspec.data import prepare, splits
from headspec.data.submission import ARCHIVE, FILES, answers, warnings, write, written
from headspec.errors import ConfigError, DataError
from support.data.sources import problem, save, texts
from support.running.studies import CONFIG

NUMBERED = ["CoLA", "SST-2", "MRPC", "QQP", "WNLI"]


def table(**predictions: list[float]) -> pd.DataFrame:
    """A table `submission` in reverse order, in which index is ten times example."""
    columns = {file.replace("_", "-"): pd.Series(values) for file, values in predictions.items()}
    rows = pd.concat(columns, names=["file", "example"]).rename("prediction").reset_index()
    return rows.assign(index=rows["example"] * 10)[::-1]


def lines(path: Path) -> list[list[str]]:
    return [line.split("\t") for line in path.read_text().splitlines()]


# --- formats


@pytest.mark.parametrize("file", [file for file, kind in FILES.items() if kind.classes])
def test_classes_are_written_in_the_format_of_the_server(file):
    """Numbers of the server's order, or names, which may be in another order."""
    classes = list(FILES[file].classes)
    numbers = np.arange(len(classes), dtype=float)
    assert answers(file, numbers, classes) == (["0", "1"] if file in NUMBERED else classes)
    if file not in NUMBERED:
        assert answers(file, numbers, classes[::-1]) == classes[::-1]


def test_scores_are_clipped_and_rounded():
    scores = answers("STS-B", np.array([-0.4, 0.0, 2.34567, 4.9996, 5.2, 1e9]), None)
    assert scores == ["0.000", "0.000", "2.346", "5.000", "5.000", "5.000"]


@pytest.mark.parametrize(
    ("file", "prediction", "classes", "words"),
    [
        ("STS-B", np.nan, None, "STS-B: 1 of 2 predictions are nan"),
        ("MRPC", 0, ["equivalent", "not_equivalent"], "not_equivalent, equivalent in this order"),
        ("CoLA", 0, ["0", "1"], "got 0, 1, expected the classes unacceptable, acceptable"),
        ("MNLI-m", 0, ["entailment", "not_entailment"], "entailment, neutral, contradiction"),
        ("STS-B", 0, ["low", "high"], "type: got classification, expected regression"),
        ("RTE", 0, None, "type: got regression, expected classification"),
    ],
)
def test_other_classes_and_missing_predictions_are_refused(file, prediction, classes, words):
    with pytest.raises(DataError, match=words):
        answers(file, np.array([1.0, prediction]), classes)


# --- files


def test_files_and_their_zip(tmp_path):
    """Header, a row per example in order, WNLI as well; the zip has the same bytes."""
    predictions = table(CoLA=[1, 0, 1], RTE=[0, 1], STS_B=[2.5, -1])
    classes = {"CoLA": list(FILES["CoLA"].classes), "RTE": ["entailment", "not_entailment"], "STS-B": None}
    write(tmp_path / "a", predictions, classes)
    for file, rows in {
        "CoLA": [["0", "1"], ["10", "0"], ["20", "1"]],
        "RTE": [["0", "entailment"], ["10", "not_entailment"]],
        "STS-B": [["0", "2.500"], ["10", "0.000"]],
        "WNLI": [[str(i), "0"] for i in range(146)],
    }.items():
        assert lines(tmp_path / "a" / f"{file}.tsv") == [["index", "prediction"], *rows]
    names = ["CoLA.tsv", "STS-B.tsv", "RTE.tsv", "WNLI.tsv"]
    with zipfile.ZipFile(tmp_path / "a" / ARCHIVE) as archive:
        assert archive.namelist() == names and archive.testzip() is None
        for name in names:
            assert archive.read(name) == (tmp_path / "a" / name).read_bytes()
    assert {path.name for path in (tmp_path / "a").iterdir()} == {*names, ARCHIVE}
    write(tmp_path / "b", predictions.sample(frac=1, random_state=0), classes)
    assert (tmp_path / "b" / ARCHIVE).read_bytes() == (tmp_path / "a" / ARCHIVE).read_bytes()


def test_the_servers_numbers_of_rows():
    """A full set of files gives no warning; a wrong length or a missing file does."""
    whole = {file: spec.rows for file, spec in FILES.items()}
    assert len(whole) == 11 and warnings(whole) == []
    assert warnings(whole | {"RTE": 2999}) == ["RTE: 2999 rows, but the server's test set has 3000"]
    del whole["WNLI"], whole["AX"]  # WNLI is always written
    assert warnings(whole) == ["the server also needs AX"]
    assert written(["RTE", "CoLA"]) == ["CoLA", "RTE", "WNLI"]


# --- the splits


@pytest.fixture
def source(tmp_path) -> Path:
    """Texts 0-19 in train, 20-25 in validation, 15-24 twice in odd; the last texts of test are in train."""
    test = pd.concat([texts("text", 3, 90)] * 2 + [texts("text", 2)])
    frames = {
        "train": texts("text"),
        "validation": texts("text", 6, 20),
        "odd": pd.concat([texts("text", 10, 15)] * 2),
        "test": test.assign(label="-1", idx=range(107, 99, -1)),
        "bare": texts("text", 5, 40).drop(columns="label"),
        "twice": pd.DataFrame({"text": ["b", "a"], "idx": [3, 3]}),
    }
    for name, frame in frames.items():
        save(frame, tmp_path / f"{name}.parquet")
    return tmp_path


def test_a_further_split_is_complete_and_not_trained_on(source):
    """Like validation, it keeps repetitions, and its texts leave train and what is held out of it."""
    plain = prepare.prepare("t", Task(source=str(source)), 0)
    assert "in_further" not in plain.counts["train"]
    task = Task(source=str(source), further={"t-odd": "odd"})
    prepared = prepare.prepare("t", task, 0)
    first = {f"text {i}" for i in range(15)}
    assert {*prepared.train["text_a"]} == first and prepared.counts["train"]["in_further"] == 5
    assert {*prepared.validation["text_a"]} == {*plain.validation["text_a"]}
    frame, counts = prepare.further_table("t", task, "t-odd", 0, prepared.classes)
    assert sorted(frame["text_a"]) == sorted(f"text {i}" for i in range(15, 25) for _ in range(2))
    assert (counts["rows"], counts["duplicate"], counts["examples"]) == (20, 10, 20)
    assert [text.endswith(tuple("13579")) for text in frame["text_a"]] == (frame["label"] == "b").tolist()
    fewer = task.model_copy(update={"validation_examples": 4})
    frame, _ = prepare.further_table("t", fewer, "t-odd", 0, prepared.classes)
    assert frame["example"].tolist() == [0, 1, 2, 3] and frame["label"].value_counts().tolist() == [2, 2]
    held = prepare.prepare("t", fewer.model_copy(update={"validation_split": None}), 0)
    assert {*held.train["text_a"], *held.validation["text_a"]} == first


def test_a_test_set_is_complete_and_in_order(source):
    """Repetitions stay, labels of -1 are ignored, idx is kept, and train keeps rows that also occur here."""
    task = Task(source=str(source), test={"CoLA": "test", "RTE": "bare"}, filter={"label": ["a", "b"]})
    train = prepare.prepare("t", task, 0).train
    assert len(train) == 20
    frame, counts = splits.read_unlabelled("t", task, "CoLA", train)
    assert frame["text_a"].tolist() == [f"text {i}" for i in (90, 91, 92, 90, 91, 92, 0, 1)]
    assert frame["index"].tolist() == list(range(107, 99, -1)) and frame["example"].tolist() == list(range(8))
    assert counts == {"rows": 8, "in_train": 2} and "label" not in frame
    frame, counts = splits.read_unlabelled("t", task, "RTE", train)  # neither label nor idx
    assert frame["index"].tolist() == [0, 1, 2, 3, 4] and counts["in_train"] == 0


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"further": {"t-odd": "od"}}, "tasks.t.further.t-odd: no split 'od' in the source; it has bare,"),
        ({"test": {"CoLA": "tst"}}, "test, train, twice, validation. Did you mean 'test'?"),
        ({"further": {"t-odd": "test"}}, "tasks.t.label: 8 of 8 rows of test.parquet have no label"),
        ({"test": {"CoLA": "twice"}}, "tasks.t.test.CoLA: row 2 of twice.parquet has '3' in the column idx"),
    ],
)
def test_wrong_splits_are_reported_while_planning(source, settings, words):
    assert words in problem(source, **settings)


# --- the config

GLUE = {
    "tasks": {
        "cola": {"source": "c", "labels": list(FILES["CoLA"].classes), "test": {"CoLA": "test"}},
        "mnli": {"source": "m", "text_b": "b", "labels": list(FILES["AX"].classes),
                 "further": {"mnli-mm": "mismatched"}, "test": {"MNLI-m": "test_matched", "AX": "ax/test"}},
        "news": {"source": "n"},
        "news-pair": {"pairs_of": "news"},
    },
    "mixtures": {"groups": {"glue": ["cola", "mnli"], "all": ["cola", "mnli", "news"]}, "single": ["news"]},
    "methods": ["tuned", "iat"],
    "iat": {"mixtures": ["glue"]},
}  # fmt: skip


def config(task: str = "cola", **settings) -> dict:
    own = GLUE["tasks"][task] | settings
    return CONFIG | GLUE | {"tasks": GLUE["tasks"] | {task: own}}


def test_what_is_submitted():
    """Mixtures of all tasks with test sets; IAT and single tasks where the config trains them."""
    expected = [("glue", "tuned"), ("glue", "iat"), ("glue", "single"), ("all", "tuned")]
    assert load(config()).submissions == expected
    assert load(CONFIG).submissions == []


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        (config(test={"cola": "test"}), "tasks.cola.test.cola: not a file .* Did you mean 'CoLA'"),
        (config("mnli", test={"AX": "a", "CoLA": "b"}), "tasks.mnli.test.CoLA: same file as tasks.cola"),
        (config(labels=["acceptable", "unacceptable"]), "tasks.cola.labels: got acceptable, .* this order"),
        (config(labels=None), "tasks.cola.labels: got nothing, expected the classes un"),
        (config(test={"STS-B": "test"}), "tasks.cola.type: got classification, expected regression"),
        (config("news", test={"SST-2": "t"}, labels=["negative", "positive"])
         | {"mixtures": {"groups": {"glue": ["cola", "mnli"]}}}, "mixtures: no mixture has all tasks with"),
        (config("mnli", further={"news": "x"}), "tasks.mnli.further.news: same name as tasks.news"),
        (config("mnli", further={"Glue": "x"}), "tasks.mnli.further.Glue: same name as mixtures.groups.glue"),
        (config(further={"mnli-mm": "x"}), "tasks.mnli.further.mnli-mm: same name as tasks.cola.f"),
        (config("mnli", further={"mean": "x"}), "tasks.mnli.further.mean: reserved for tables"),
        (config("mnli", further={"m": "train"}), "tasks.mnli.further.m: got 'train', the train_split"),
        (config("news-pair", further={"x": "y"}), "tasks.news-pair.further: has no effect with pairs_of"),
        (config("news-pair", test={"SST-2": "y"}), "tasks.news-pair.test: has no effect with pairs_of"),
    ],
)  # fmt: skip
def test_a_wrong_config_gives_one_line(changed, words):
    with pytest.raises(ConfigError, match=words) as caught:
        load(changed)
    assert "\n" not in str(caught.value)
