"""Snakemake on a tiny study of all kinds of tasks that are trained beside one another: the whole path."""

import itertools
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from headspec import per_example
from headspec.errors import HeadspecError
from headspec.pipeline.commands.export import export_run
from headspec.tasks.kinds.answer.metrics import agreement
from headspec.tasks.metrics import chance, score
from support.data import treebanks
from support.running.edits import within
from support.running.studies import CONFIG, FILLER, HEADS, LAYERS, SMALL, TONE, TOPIC, Folder, Plan, sentence

pytestmark = pytest.mark.slow

BANK = "texts/bank"
PLACES = list(TOPIC)
MEASURED = ["places+pos", "where+pos"]
MEASURES = ["text", "cka", "fisher", "importance", "dse", "head-fisher", "gradient"]
STUDY: dict[str, Any] = SMALL | {
    "tasks": {
        "tone": CONFIG["tasks"]["tone"],
        "places": {"source": "texts/places", "type": "labels", "labels": PLACES},
        "either": {"source": "texts/either.csv", "type": "labels", "text_a": "left", "text_b": "right",
                   "label": PLACES, "metrics": ["macro_f1", "lrap"]},
        "where": {"source": "texts/questions", "type": "answer"},
        "pos": {"source": f"{BANK}/trees", "type": "tags"},
        "arcs": {"source": f"{BANK}/trees", "type": "dependencies"},
        "names": {"source": f"{BANK}/annotated", "type": "spans"},
        "brackets": {"source": f"{BANK}/annotated", "type": "constituents"},
        "roles": {"source": f"{BANK}/annotated", "type": "roles"},
    },
    "mixtures": {
        "pairs": ["places", "where", "pos"],
        "groups": {"labels": ["tone", "places", "either"],
                   "words": ["pos", "arcs", "names", "brackets", "roles"]},
    },
    "methods": ["tuned", "iat", "atlas", "gates", "probes"],
    "training": CONFIG["training"] | {"epochs": 6},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 20},
    "similarity": {"measures": MEASURES, "max_sentences": 60},
    "iat": {"mixtures": MEASURED, "controls": ["even"]},
    "atlas": {"methods": ["tuned"], "mixtures": MEASURED, "examples": 40, "fractions": [0.5], "draws": 2,
              "rankings": ["importance", "relevance", "ablation"], "sentences": 50},
    "gates": {"mixtures": ["places+pos"], "scope": ["per_task"], "kept": [0.5], "epochs": 1,
              "pruning_methods": ["subset"]},
    "probes": {"mixtures": ["pos", "places+pos"], "methods": ["tuned", "single", "iat", "even"]},
}  # fmt: skip
KINDS = "headspec/tasks/kinds"
#: modules of a new kind, and of one of a plugin with the keys of its base
DEGREE = {
    "__init__": "",
    "kind": "from headspec.tasks.kinds.texts.kind import Regression\n\nKIND = Regression()\n",
    "data": "from headspec.tasks.kinds.texts.data import REGRESSION_DATA as DATA\n",
    "head": "from headspec.tasks.kinds.texts.head import REGRESSION_HEAD as HEAD\n",
}
EMOTIONS = {
    "kind": "from headspec.tasks.kinds.texts.kind import Labels\n\nKIND = Labels()\n",
    "data": "from headspec.tasks.kinds.texts.data import LABELS_DATA as DATA\n",
    "encoding": "from headspec.tasks.kinds.texts.encoding import LABELS_ENCODING as ENCODING\n",
    "metrics": "from headspec.tasks.kinds.texts.metrics import LABELS_METRICS as METRICS\n",
    "head": """
from headspec.tasks.kinds.texts.head import Labels

class Emotions(Labels):
    def losses(self, model, states, targets):
        return super().losses(model, states, targets)

HEAD = Emotions
""",
}
#: tables and figures in which kinds differ, and all of probes
FIGURES = ["dissociation", "fractions.bert", "importance.bert.words.tuned", "matrix.bert.words.tuned",
           "curves.bert.labels.tuned", "atlas/ranked.bert.where+pos.tuned"]  # fmt: skip
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("similarity", "improvement", "belief", "budgets")),
    *(f"results/tiny/figures/{name}.png" for name in FIGURES), "probes", "explorer",
]  # fmt: skip


def labelled_texts(folder: Path) -> None:
    """Texts that mention up to three places: lists in a Parquet column, and pairs with columns of 0 and 1."""
    rng = np.random.default_rng(0)

    def mentioned(most: int) -> list[str]:
        return rng.choice(PLACES, rng.integers(0, most + 1), replace=False).tolist()

    def text(places: list[str]) -> str:
        return sentence(rng, *(rng.choice(TOPIC[place]) for place in places))

    (folder / "places").mkdir()
    for split, size in {"train": 200, "validation": 60}.items():
        labels = [mentioned(3) for _ in range(size)]
        frame = pd.DataFrame({"text": map(text, labels), "label": labels})
        frame.to_parquet(folder / "places" / f"{split}.parquet")
    rows = []
    for _ in range(250):
        left, right = mentioned(1), mentioned(1)
        flags = {place: int(place in left + right) for place in PLACES}
        rows.append({"left": text(left), "right": text(right)} | flags)
    pd.DataFrame(rows).to_csv(folder / "either.csv", index=False)


def questions(folder: Path) -> None:
    """Documents of questions where something is; a quarter has no answer, and some contexts are long."""
    rng = np.random.default_rng(0)
    places = [word for words in TOPIC.values() for word in words]
    folder.mkdir()
    for split, n in {"train": 240, "validation": 60}.items():
        paragraphs = []
        for i in range(n):
            words = rng.choice(FILLER, 24 if i % 5 == 0 else rng.integers(3, 7)).tolist()
            answers = []
            if rng.random() < 0.75:
                at, place = rng.integers(len(words) + 1), rng.choice(places)
                start = len(" ".join([*words[:at], ""]).lstrip())
                words.insert(at, place)
                answers = [{"text": str(place), "answer_start": start}]
            question = f"the {rng.choice(TONE['good'])} day {i}"
            qas = [{"id": str(i), "question": question, "answers": answers, "is_impossible": not answers}]
            paragraphs.append({"context": " ".join(words), "qas": qas})
        document = {"version": "v2.0", "data": [{"title": split, "paragraphs": paragraphs}]}
        (folder / f"{split}.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def finished(finish) -> Folder:
    def prepare(path: Path) -> None:
        treebanks.write(path / BANK)
        labelled_texts(path / "texts")
        questions(path / "texts" / "questions")

    return finish("kinds_of_tasks", STUDY, TARGETS, prepare)


@pytest.fixture
def copy(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "copy")


def run_table(study: Folder, name: str) -> pd.DataFrame:
    return pd.read_parquet(study.results / "runs" / "bert" / f"{name}.parquet")


def arrays(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Lists of labels and of predictions, (n, values) each."""
    return tuple(np.stack(rows[column].tolist()) for column in ("label_values", "prediction_values"))


# --- each kind by itself


def test_every_kind_on_words_is_learnt_beside_the_others(finished):
    table = run_table(finished, "words/tuned/seed0/predictions").query("pruned_for == 'none'")
    metrics = {"pos": "word_accuracy", "arcs": "las", "names": "span_f1", "brackets": "bracket_f1"}
    for task, metric in {**metrics, "roles": "role_f1"}.items():
        label, prediction = per_example.labels_and_predictions(table[table["task"] == task])
        reached = score(metric, label, prediction)
        assert reached > (0.2 if task == "brackets" else chance(metric, label)), (task, reached)


@pytest.mark.parametrize("mixture", ["labels", "words", "where+pos"])
def test_values_are_metrics_of_the_predictions(finished, mixture):
    """With all heads, and without the most important ones."""
    run = f"{mixture}/tuned/seed0"
    pruning, predictions = (run_table(finished, f"{run}/{name}") for name in ("pruning", "predictions"))
    for row in pruning[pruning["order"].eq("top") | pruning["pruned_for"].eq("none")].itertuples():
        of_mask = "task == @row.task and pruned_for == @row.pruned_for and fraction == @row.fraction"
        label, prediction = per_example.labels_and_predictions(predictions.query(of_mask))
        assert row.value == pytest.approx(score(row.metric, label, prediction), abs=1e-6)


def test_sets_of_labels_are_learnt_and_stored_as_numbers(finished):
    table = run_table(finished, "places/single/seed0/evaluation")
    label, likely = arrays(table)
    stored = pd.read_parquet(finished.results / "data/places/validation.parquet").set_index("example")
    sets = [json.loads(text) for text in stored["label"].loc[table["example"]]]
    assert label.astype(bool).tolist() == [[place in mentioned for place in PLACES] for mentioned in sets]
    assert sk.f1_score(label, likely >= 0.5, average="micro") > chance("micro_f1", label) + 0.1
    assert sets.count([]) > 5


def test_answers_are_found_in_short_and_long_contexts(finished):
    table = run_table(finished, "where/single/seed0/evaluation")
    stored = pd.read_parquet(finished.results / "data/where/validation.parquet").set_index("example")
    stored = stored.loc[table["example"]]
    golds = [[text for text, _ in json.loads(label)] for label in stored["label"]]
    contexts, texts = stored["text_b"], table["prediction_text"]
    scores = np.array([agreement(text, gold) for text, gold in zip(texts, golds, strict=True)])
    label, prediction = arrays(table)
    assert prediction == pytest.approx(scores)
    assert label[:, 0].tolist() == [float(not gold) for gold in golds]
    right, windows = scores[:, 1], contexts.str.split().str.len().to_numpy() > 20
    assert right.mean() > 0.8
    assert windows.sum() >= 10 and right[windows].mean() > 0.6
    assert all(text in context for text, context in zip(texts, contexts, strict=True))

    # another stage predicts the same answers
    predictions, ablated = (
        run_table(finished, f"where+pos/tuned/seed0/{name}").query("task == 'where'")
        for name in ("predictions", "atlas/ablated")
    )
    rows = predictions[predictions["pruned_for"] == "none"].set_index("example")
    whole = ablated[ablated["layer"].isna()]
    expected = rows["prediction_values"].map(list)[whole["example"]]
    assert whole["prediction_values"].map(list).tolist() == expected.tolist()


# --- together


def test_kinds_dissociate_in_one_table(finished):
    table = pd.read_parquet(finished.results / "tables/dissociation.parquet").query("method == 'tuned'")
    metrics = {"places": "micro_f1", "where": "answer_f1", "pos": "word_accuracy"}
    for pair in itertools.combinations(metrics, 2):
        rows = table[table["mixture"] == "+".join(pair)]
        assert {*rows["metric"]} == {metrics[task] for task in pair}
        assert np.isfinite(rows[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
        assert not rows["unpruned_at_chance"].any()
    similarity = pd.read_parquet(finished.results / "tables/similarity.parquet")
    assert {*MEASURES} == {*similarity["measure"]}
    page = (finished.results / "explorer.html").read_text()
    assert all(name in page for name in ("micro_f1", "answer_f1", "las", "places", "brackets"))


def test_single_heads_are_measured(finished):
    heads = pd.read_parquet(finished.results / "tables/heads.parquet")
    for task in ("places", "where", "pos"):
        measured = heads[heads["task"] == task]
        assert {"ablation", "relevance", "confidence"} <= {*measured["measure"]}
        assert (measured.groupby(["mixture", "measure"]).size() == LAYERS * HEADS).all()
        assert np.isfinite(measured["value"]).all()


def test_heads_know_tags_that_words_decide(finished):
    table = pd.read_parquet(finished.results / "tables/probes.parquet")
    table = table.query("task == 'pos' and label.isna() and heads == 'best'")
    assert {*table["mixture"]} == {"none", "pos", "places+pos"}
    words = pd.read_parquet(finished.results / "data/pos/validation.parquet")["text_a"].str.split().str.len()
    assert (table["n"] == words.sum()).all()
    accuracy = table.groupby("method")["accuracy"].first()
    assert {*accuracy.index} == {"pretrained", "random", "single", "tuned", "iat", "even"}
    assert 0 < accuracy["random"] < accuracy["pretrained"] < accuracy["single"] <= 1
    changes = pd.read_parquet(finished.results / "tables/probe_changes.parquet").query("task == 'pos'")
    both = {"pretrained", "single"}
    assert changes.groupby(["mixture", "method"])["before"].agg(set).to_dict() == {
        ("pos", "single"): {"pretrained"}, ("places+pos", "tuned"): both,
        ("places+pos", "iat"): both | {"tuned"}, ("places+pos", "even"): both | {"tuned"},
    }  # fmt: skip
    assert len(list((finished.results / "figures/probes").glob("*.png"))) == 3 + 1


def test_runs_of_words_are_not_exported(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    run = "results/tiny/runs/bert/places+pos/tuned/seed0"
    expected = f"^{re.escape(run)}: pos: tasks on words; export supports"
    with pytest.raises(HeadspecError, match=expected):
        export_run(Path(run), n=3, task="places")
    assert not Path("results/tiny/export").exists()


# --- changes


def told(plan: Plan, start: str) -> set[str]:
    """The messages of jobs that begin with `start`, without it."""
    return {message.removeprefix(start) for message in plan.messages if message.startswith(start)}


def test_the_learning_rate_of_a_kind_concerns_the_trainings_that_have_it(copy):
    copy.set("training.decoder_learning_rate", 0.01)
    plan = copy.plan(*TARGETS)
    mixtures = {f"{mixture}, {method}" for mixture in MEASURED for method in ("tuned", "iat", "even")}
    mixtures |= {"pos, single", "words, tuned"}
    assert told(plan, "Training bert on ") == {f"{mixture}, seed 0" for mixture in mixtures}
    assert not {"data", "validation", "tokenize"} & set(plan.rules)


def test_how_a_family_of_kinds_is_read_concerns_its_tasks_alone(copy):
    within(f"{KINDS}/words/data.py", "Tags")(copy)
    splits, tasks = ("training", "validation"), ("pos", "names", "arcs", "brackets", "roles")
    expected = {f"{split} texts of task {task}" for split in splits for task in tasks}
    assert told(copy.plan(*TARGETS), "Reading ") == expected


def test_a_new_kind_is_a_folder_and_a_line_and_reruns_nothing(copy):
    folder = copy.path / "workflow" / KINDS / "degree"
    folder.mkdir()
    for module, text in DEGREE.items():
        (folder / f"{module}.py").write_text(text)
    copy.replace("workflow/headspec/tasks/registry.py", '"answer",', '"degree", "answer",')
    assert not copy.plan(*TARGETS).rules
    copy.set("tasks.tone.type", "degree")
    assert "but a regression task needs finite numbers" in copy.snakemake("--dry-run", fails=True)


def test_a_kind_of_a_plugin_is_read_trained_and_scored_as_one_of_headspec(finished, tmp_path):
    copy = finished.copy(tmp_path / "copy", "results")
    (copy.path / "kinds/emotions").mkdir(parents=True)
    for module, text in EMOTIONS.items():
        (copy.path / f"kinds/emotions/{module}.py").write_text(text)
    copy.set("plugins", ["kinds/emotions"])
    copy.set("tasks.places.type", "emotions")
    run = "runs/bert/labels/tuned/seed0"
    targets = [f"results/tiny/{run}/{table}.parquet" for table in ("importance", "pruning", "predictions")]
    copy.snakemake(*targets)
    for target in targets:
        found, expected = (pd.read_parquet(folder.path / target) for folder in (copy, finished))
        pd.testing.assert_frame_equal(found, expected)
    assert copy.plan(*targets).rules == {}
    copy.replace("kinds/emotions/metrics.py", "as METRICS", "as METRICS  # of labels")
    assert "prune" in copy.plan(*targets).rules
    copy.replace("kinds/emotions/head.py", "return ", "return 2 * ")
    assert {"train", "importance", "prune"} <= {*copy.plan(*targets).rules}
    copy.set("tasks.places.type", "emotion")
    assert "Did you mean 'emotions'?" in copy.snakemake("--dry-run", fails=True)
