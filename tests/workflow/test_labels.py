"""Snakemake on a tiny study of tasks with several labels, of texts and of pairs, beside one of classes."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn import metrics as sk

from headspec.tasks.metrics import chance
from support.paths import ROOT
from support.running.studies import CONFIG, HEADS, LAYERS, TOPIC, Folder, sentence

pytestmark = pytest.mark.slow

PLACES = list(TOPIC)
MEASURES = ["text", "cka", "fisher", "importance", "dse", "gradient"]
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "tasks": {
        "tone": CONFIG["tasks"]["tone"],
        "places": {"source": "texts/places", "type": "labels", "labels": PLACES},
        "either": {"source": "texts/either.csv", "type": "labels", "text_a": "left", "text_b": "right",
                   "label": PLACES, "metrics": ["macro_f1", "lrap"]},
    },
    "mixtures": {"pairs": ["tone", "places", "either"]},
    "methods": ["tuned", "iat", "atlas", "gates"],
    "training": CONFIG["training"] | {"epochs": 8},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 20},
    "similarity": {"measures": MEASURES, "max_sentences": 60},
    "iat": {"mixtures": ["tone+places"], "controls": ["random"]},
    "atlas": {"methods": ["tuned"], "mixtures": ["tone+places"], "examples": 40, "fractions": [0.5],
              "draws": 2, "rankings": ["importance", "relevance", "ablation"]},
    "gates": {"mixtures": ["tone+places"], "kept": [0.5], "epochs": 1, "pruning_methods": ["importance"]},
    "figures": {"dpi": 60, "formats": ["png"]},
}  # fmt: skip


def write(folder: Path) -> None:
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


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        write(path / "texts")
        folder.write(STUDY)
        folder.snakemake("all", "atlas", "gates", "explorer")

    return Folder(shared("labels", fill))


def arrays(rows: pd.DataFrame) -> tuple[np.ndarray, np.ndarray]:
    """Labels and probabilities, (n, labels) each."""
    return tuple(np.stack(rows[column].tolist()) for column in ("label_values", "prediction_values"))


def test_sets_of_labels_are_learnt_and_stored_as_numbers(finished):
    table = pd.read_parquet(finished.results / "runs/bert/places/single/seed0/evaluation.parquet")
    label, likely = arrays(table)
    stored = pd.read_parquet(finished.results / "data/places/validation.parquet").set_index("example")
    sets = [json.loads(each) for each in stored["label"].loc[table["example"]]]
    assert [[place for place in PLACES if place in each] for each in sets] == [
        [place for place, flag in zip(PLACES, row, strict=True) if flag] for row in label
    ]
    assert sk.f1_score(label, likely >= 0.5, average="micro") > chance("micro_f1", label) + 0.1
    assert sum(not each for each in sets) > 5


def test_values_of_pruned_models_are_those_of_scikit_learn(finished):
    run = finished.results / "runs/bert/places+either/tuned/seed0"
    pruning, predictions = (pd.read_parquet(run / f"{name}.parquet") for name in ("pruning", "predictions"))
    reference = {
        "micro_f1": lambda label, likely: sk.f1_score(label, likely >= 0.5, average="micro", zero_division=0),
        "macro_f1": lambda label, likely: sk.f1_score(label, likely >= 0.5, average="macro", zero_division=0),
        "lrap": sk.label_ranking_average_precision_score,
    }
    top = pruning[pruning["order"].eq("top") | pruning["pruned_for"].eq("none")]
    assert {*top["metric"]} == {*reference}
    for row in top.itertuples():
        of_row = (predictions["task"] == row.task) & (predictions["pruned_for"] == row.pruned_for)
        fraction = predictions["fraction"] == row.fraction if row.pruned_for != "none" else True
        rows = predictions[of_row & fraction]
        assert row.value == pytest.approx(reference[row.metric](*arrays(rows)), abs=1e-6)


def test_labels_and_classes_dissociate_in_one_table(finished):
    table = pd.read_parquet(finished.results / "tables/dissociation.parquet")
    of_pair = table[(table["mixture"] == "tone+places") & (table["method"] == "tuned")]
    assert {*of_pair["metric"]} == {"accuracy", "micro_f1"}
    assert np.isfinite(of_pair[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
    assert not of_pair["unpruned_at_chance"].any()
    similarity = pd.read_parquet(finished.results / "tables/similarity.parquet")
    assert {*MEASURES} == {*similarity["measure"]}


def test_single_heads_are_measured(finished):
    heads = pd.read_parquet(finished.results / "tables/heads.parquet").query("task == 'places'")
    assert {"ablation", "relevance", "confidence"} <= {*heads["measure"]}
    assert (heads.groupby("measure").size() == LAYERS * HEADS).all()
    assert np.isfinite(heads["value"]).all()


def test_tasks_of_labels_are_on_the_page_to_explore(finished):
    page = (finished.results / "explorer.html").read_text()
    assert "micro_f1" in page and "places" in page


def test_unknown_labels_are_named_before_any_job(finished, tmp_path):
    copy = finished.copy(tmp_path / "copy", "results")
    copy.set("tasks.places.labels", [*PLACES[:-1], "towns"])
    assert "has label 'town'" in (output := copy.snakemake("--dry-run", fails=True))
    assert "Did you mean 'towns'?" in output


def test_a_kind_of_a_plugin_is_read_trained_and_scored_as_one_of_headspec(finished, tmp_path):
    copy = finished.copy(tmp_path / "copy", "results")
    shutil.copytree(ROOT / "workflow/headspec/tasks/labels", copy.path / "kinds/emotions")
    copy.set("plugins", ["kinds/emotions"])
    copy.set("tasks.places.type", "emotions")
    run = "runs/bert/tone+places/tuned/seed0"
    targets = [f"results/tiny/{run}/{table}.parquet" for table in ("importance", "pruning", "predictions")]
    copy.snakemake(*targets)
    for target in targets:
        found, expected = (pd.read_parquet(folder.path / target) for folder in (copy, finished))
        pd.testing.assert_frame_equal(found, expected)
    assert copy.plan(*targets).rules == {}
    copy.replace("kinds/emotions/metrics.py", "THRESHOLD = 0.5", "THRESHOLD = 0.4")
    assert copy.plan(*targets).rules == {"prune": 1}
    copy.replace("kinds/emotions/head.py", ".mean(1)", ".sum(1)")
    assert copy.plan(*targets).rules == {"train_and_keep": 1, "importance": 1, "prune": 1}
    copy.set("tasks.places.type", "emotion")
    assert "Did you mean 'emotions'?" in copy.snakemake("--dry-run", fails=True)
