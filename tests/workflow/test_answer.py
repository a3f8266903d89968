"""Snakemake on a tiny study of extractive questions beside a task of classes: the whole path."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from headspec.tasks.answer.metrics import agreement
from support.running.studies import CONFIG, FILLER, TONE, TOPIC, Folder

pytestmark = pytest.mark.slow

PLACES = [word for words in TOPIC.values() for word in words]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "tasks": {
        "tone": CONFIG["tasks"]["tone"],
        "topic": CONFIG["tasks"]["topic"],
        "place": {"source": "texts/questions", "type": "answer"},
    },
    "mixtures": {"pairs": ["tone", "topic", "place"], "single": ["place"]},
    "methods": ["tuned", "frozen", "iat", "atlas"],
    "training": CONFIG["training"] | {"epochs": 6},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 20},
    "similarity": {"measures": ["text", "cka", "fisher", "importance"], "max_sentences": 60},
    "iat": {"mixtures": ["tone+place"], "controls": ["random"]},
    "transfer": {"tasks": ["topic"], "samples": [20], "draws": 2},
    "atlas": {"methods": ["tuned"], "mixtures": ["tone+place"], "examples": 40, "fractions": [0.5],
              "draws": 2, "rankings": ["importance", "relevance", "ablation"]},
    "figures": {"dpi": 60, "formats": ["png"]},
}  # fmt: skip


def write(folder: Path) -> None:
    """Documents of questions where something is; a quarter has no answer, and some contexts are long."""
    rng = np.random.default_rng(0)
    folder.mkdir()
    for split, n in {"train": 240, "validation": 60}.items():
        paragraphs = []
        for i in range(n):
            words = rng.choice(FILLER, 24 if i % 5 == 0 else rng.integers(3, 7)).tolist()
            answers = []
            if rng.random() < 0.75:
                at, place = rng.integers(len(words) + 1), rng.choice(PLACES)
                start = len(" ".join([*words[:at], ""]).lstrip())
                words.insert(at, place)
                answers = [{"text": str(place), "answer_start": start}]
            question = f"the {rng.choice(TONE['good'])} day {i}"
            qas = [{"id": str(i), "question": question, "answers": answers, "is_impossible": not answers}]
            paragraphs.append({"context": " ".join(words), "qas": qas})
        document = {"version": "v2.0", "data": [{"title": split, "paragraphs": paragraphs}]}
        (folder / f"{split}.json").write_text(json.dumps(document))


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        write(path / "texts" / "questions")
        folder.write(STUDY)
        folder.snakemake("all", "atlas", "explorer")

    return Folder(shared("answer", fill))


def questions(finished: Folder, rows: pd.DataFrame) -> list[tuple[str, list[str]]]:
    """The contexts of rows, and the texts of their gold answers."""
    stored = pd.read_parquet(finished.results / "data/place/validation.parquet").set_index("example")
    of_rows = stored.loc[rows["example"]]
    golds = [[text for text, _ in json.loads(label)] for label in of_rows["label"]]
    return list(zip(of_rows["text_b"], golds, strict=True))


def test_answers_are_found_in_short_and_long_contexts(finished):
    table = pd.read_parquet(finished.results / "runs/bert/place/single/seed0/evaluation.parquet")
    found = questions(finished, table)
    scores = [
        agreement(text, golds) for text, (_, golds) in zip(table["prediction_text"], found, strict=True)
    ]
    assert np.stack(table["prediction_values"].tolist()) == pytest.approx(np.array(scores))
    assert np.stack(table["label_values"].tolist())[:, 0].tolist() == [float(not golds) for _, golds in found]
    right = np.array(scores)[:, 1]
    assert right.mean() > 0.8
    windows = np.array([len(context.split()) > 20 for context, _ in found])
    assert windows.sum() >= 10 and right[windows].mean() > 0.6
    assert all(text in context for text, (context, _) in zip(table["prediction_text"], found, strict=True))


def test_values_under_masks_are_means_over_examples(finished):
    run = finished.results / "runs/bert/tone+place/tuned/seed0"
    pruning, predictions = (pd.read_parquet(run / f"{name}.parquet") for name in ("pruning", "predictions"))
    rows = predictions[(predictions["task"] == "place") & (predictions["pruned_for"] == "none")]
    means = np.stack(rows["prediction_values"].tolist()).mean(axis=0)
    none = pruning[(pruning["task"] == "place") & (pruning["pruned_for"] == "none")].set_index("metric")
    assert none["value"][["answer_f1", "answer_exact_match"]].tolist() == pytest.approx(means.tolist())


def test_answers_and_classes_dissociate_in_one_table(finished):
    table = pd.read_parquet(finished.results / "tables/dissociation.parquet")
    tuned = table[(table["method"] == "tuned") & (table["mixture"] == "tone+place")]
    assert {*tuned["metric"]} == {"accuracy", "answer_f1"}
    assert np.isfinite(tuned[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
    assert not tuned["unpruned_at_chance"].any()
    heads = pd.read_parquet(finished.results / "tables/heads.parquet")
    assert {"ablation", "relevance", "confidence"} <= {*heads[heads["task"] == "place"]["measure"]}


def test_the_atlas_predicts_from_all_windows_too(finished):
    table = pd.read_parquet(finished.results / "runs/bert/tone+place/tuned/seed0/atlas/ablated.parquet")
    rows = table[(table["task"] == "place") & table["layer"].isna()]
    evaluation = pd.read_parquet(finished.results / "runs/bert/tone+place/tuned/seed0/predictions.parquet")
    none = evaluation[(evaluation["task"] == "place") & (evaluation["pruned_for"] == "none")]
    expected = none.set_index("example")["prediction_values"].map(list)
    assert rows["prediction_values"].map(list).tolist() == expected[rows["example"]].tolist()
