"""A translator that the config describes: its vocabulary is made from the texts of its tasks."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from headspec import tables
from headspec.models.tokens import vocabulary
from support.running.studies import CONFIG, Folder
from support.translators import write_corpus

pytestmark = pytest.mark.slow

SIZES = {"layers": 1, "heads": 4, "hidden": 32, "dropout": 0.0, "vocabulary": 45}
TASKS = {
    name: {
        "source": "texts/pairs.tsv",
        "text_a": "en",
        "label": name,
        "type": "translation",
        "validation_examples": 40,
        "target_language": name,
    }
    for name in ("same", "back")
}
DESCRIBED = CONFIG | {
    "seeds": [0],
    "methods": ["tuned"],
    "models": {"fresh": {"transformer": SIZES, "max_length": 16}},
    "tasks": TASKS,
    "mixtures": {"pairs": ["same", "back"]},
    "training": {"epochs": 12, "batch_size": 16, "learning_rate": 5e-3, "warmup": 0.1},
    "pruning": {"fraction": 0.3, "fractions": [], "draws": 2},
    "gates": {"pruning_methods": ["importance", "fresh"], "kept": [0.5], "scope": ["shared"], "epochs": 1},
}
RUN = "results/tiny/runs/fresh/same+back/tuned/seed0"
KEPT = f"{RUN}/gates/fresh/shared/0.5/evaluation.parquet"


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path) -> None:
        folder = Folder.new(path)
        write_corpus(folder.path / "texts" / "pairs.tsv", 150)
        folder.write(DESCRIBED)
        folder.snakemake(f"{RUN}/pruning.parquet", f"{RUN}/atlas/attention.parquet", KEPT)

    return Folder(shared("described", run))


def test_it_learns_both_languages_from_its_own_vocabulary(finished):
    path = finished.results / "vocabulary" / "fresh.parquet"
    made = tables.read(path)
    assert made["piece"].head(5).tolist() == ["<pad>", "</s>", "<unk>", ">>back<<", ">>same<<"]
    training = [finished.results / "data" / task / "train.parquet" for task in TASKS]
    frames = list(map(tables.read, training))
    texts = {text for frame in frames for side in ("text_a", "label") for text in frame[side]}
    assert tables.footer(path)["texts"] == len(texts)
    expected = vocabulary.pieces(dict.fromkeys(texts), 45, ["back", "same"], "")
    pd.testing.assert_frame_equal(made, expected, check_dtype=False)

    run = finished.path / RUN
    classes = json.loads((run / "model" / "classifiers.json").read_text())["classes"]
    assert classes["back"]["prefix"] == ">>back<< "
    tokens = tables.read(finished.results / "tokens" / "fresh" / "back" / "train.parquet")
    assert {ids[0] for ids in tokens["input_ids"]} == {3}
    history = tables.read(run / "training.parquet")
    assert history["loss"].tail(5).mean() < 0.7 * history["loss"].head(5).mean()
    pruning = tables.read(run / "pruning.parquet")
    assert pruning["n_pruned"].max() == int(0.3 * 3 * 4)
    assert tables.footer(run / "pruning.parquet")["attention"]["fresh"] == dict.fromkeys(
        ("encoder", "decoder", "cross"), 1
    )


def test_its_tokenizer_is_that_of_every_stage(finished):
    """Of one that begins with fresh weights again, and of one that must know which tokens are special."""
    kept = tables.read(finished.path / KEPT)
    assert set(kept["task"]) == {"same", "back"} and kept["prediction_values"].notna().all()
    attention = tables.read(finished.path / RUN / "atlas" / "attention.parquet")
    assert attention["layer"].nunique() == 3


def test_beams_rerun_evaluations_alone(finished, tmp_path):
    folder = finished.copy(tmp_path / "study")
    folder.set("tasks.back.beams", 3)
    assert {*folder.plan(f"{RUN}/pruning.parquet", KEPT).rules} == {"prune", "pruned_run"}


def test_what_makes_its_vocabulary_anew(finished, tmp_path):
    folder = finished.copy(tmp_path / "study")
    target = f"{RUN}/pruning.parquet"
    assert not folder.plan(target).rules
    folder.set("models.fresh.transformer.hidden", 16)
    rules = {*folder.plan(target).rules}
    assert {"train", "tokenize"} <= rules and "vocabulary" not in rules
    folder.write(DESCRIBED)
    folder.set("models.fresh.transformer.vocabulary", 40)
    assert "vocabulary" in folder.plan(target).rules
    folder.write(DESCRIBED)
    texts = folder.path / "texts" / "pairs.tsv"
    texts.write_text(texts.read_text().replace("boat", "ship"))
    assert "vocabulary" in folder.plan(target).rules
