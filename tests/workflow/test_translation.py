"""A study of translation: two languages from one source, as two tasks of one encoder-decoder."""

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.models import vocabulary
from support import models
from support.running.studies import SMALL, Folder
from support.tiny import HEADS, KINDS
from support.translators import write_corpus

pytestmark = pytest.mark.slow

#: heads whose gates can close here, and those of the decoder, which never close
ENCODER, OTHERS = KINDS["encoder"] * HEADS, (KINDS["decoder"] + KINDS["cross"]) * HEADS
MEASURES = ["importance", "relevance", "confidence", "ablation", "mean_ablation"]
TASK = {"source": "texts/pairs.tsv", "text_a": "en", "type": "translation", "validation_examples": 60}
STUDY: dict[str, Any] = SMALL | {
    "methods": ["tuned", "atlas", "gates"],
    "models": {"marian": {"source": "models/marian", "max_length": 16}},
    "tasks": {
        "same": TASK | {"label": "same", "prefix": "the "},
        "back": TASK | {"label": "back", "prefix": "day ", "beams": 3},
    },
    "mixtures": {"pairs": ["same", "back"]},
    "training": {"epochs": 4, "batch_size": 16, "learning_rate": 3e-3},
    "pruning": {"fraction": 0.3, "fractions": [0.5], "draws": 2},
    "atlas": {"examples": 40, "draws": 2, "fractions": [0.5], "rankings": MEASURES},
    "gates": {"pruning_methods": ["importance", "l0", "fresh"], "source": "importance", "kept": [0.25],
              "epochs": 1, "penalties": [1.0], "attention": ["encoder"]},
}  # fmt: skip
RUN = "runs/marian/same+back/tuned/seed0"


TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("dissociation", "reliability")), "atlas", "gates",
]  # fmt: skip


@pytest.fixture(scope="module")
def finished(finish) -> Folder:
    def prepare(path: Path) -> None:
        models.make("marian", path / "models" / "marian")
        write_corpus(path / "texts" / "pairs.tsv", 160)

    return finish("translation", STUDY, TARGETS, prepare)


def table(study: Folder, name: str) -> pd.DataFrame:
    return pq.read_table(study.results / f"{name}.parquet").to_pandas()


def test_languages_are_learnt(finished):
    assert (finished.results / RUN / "model" / "source.spm").exists()
    described = json.loads((finished.results / RUN / "model" / "classifiers.json").read_text())
    assert described["classes"]["same"]["longest"] == 16
    losses = table(finished, f"{RUN}/training")["loss"]
    assert losses.tail(5).mean() < 0.8 * losses.head(5).mean()
    log = (finished.results / "logs" / RUN / "train.log").read_text()
    assert re.search(r"100 %, .*, loss [\d.]+$", log, re.MULTILINE)


def test_heads_of_all_kinds_of_attention_are_scored_and_pruned(finished):
    importance = table(finished, f"{RUN}/importance")
    assert importance.groupby("attention")["layer"].nunique().to_dict() == KINDS
    assert (importance.groupby(["task", "attention", "layer", "head"])["importance"].mean() > 0).all()
    pruning = table(finished, f"{RUN}/pruning")
    assert set(pruning["metric"]) == {"chrf", "bleu", "exact_match"}
    assert pruning["value"].between(0, 1).all()
    assert pruning["n_pruned"].max() == sum(KINDS.values()) * HEADS // 2
    footer = tables.footer(finished.results / RUN / "predictions.parquet")
    assert footer["metrics"]["bleu"].startswith("nrefs:1|") and footer["attention"] == {"marian": KINDS}
    texts = table(finished, f"{RUN}/predictions")["prediction_text"]
    assert texts.notna().all() and texts.nunique() > 1
    rows = table(finished, "tables/dissociation")
    assert set(rows["task"]) == {"same", "back"} and set(rows["metric"]) == {"chrf"}
    assert np.isfinite(rows[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)


def test_every_head_is_measured_and_self_attention_has_roles(finished):
    heads = table(finished, "tables/heads")
    for measure in MEASURES:
        measured = heads[(heads["measure"] == measure) & (heads["task"] == "back")]
        assert measured.groupby("attention")["layer"].nunique().to_dict() == KINDS, measure
        assert len(measured) == ENCODER + OTHERS
    places = heads[heads["measure"].isin(["distance", "to_self"])]
    assert {*places["attention"]} == {"encoder", "decoder"}
    assert {*table(finished, "tables/head_roles")["attention"]} == {"encoder", "decoder"}
    assert table(finished, "tables/belief")["area"].between(0, 1).all()
    # predictions with all heads follow the beams in every stage
    keys = ["task", "example"]
    ablated, cumulative = (table(finished, f"{RUN}/atlas/{name}") for name in ("ablated", "cumulative"))
    found, whole = (
        frame.drop_duplicates(keys).set_index(keys)["prediction"].sort_index()
        for frame in (ablated[ablated["measure"].isna()], cumulative[cumulative["fraction"] == 0])
    )
    assert len(found) == 80 and found.equals(whole)


def test_heads_of_the_encoder_close_alone(finished):
    budgets = table(finished, "tables/budgets").query("task == 'back' and metric == 'chrf'")
    asked = budgets[budgets["fraction"] == 0.25]
    assert {*asked["way"]} == {"importance", "l0", "fresh"}
    assert (asked["heads"] == OTHERS + ENCODER // 4).all() and asked["value"].between(0, 1).all()
    left = budgets[budgets["fraction"].isna()].drop_duplicates("penalty", keep="first")
    assert left["penalty"].isna().sum() == 1 and left["penalty"].dropna().tolist() == [1.0]
    layers = table(finished, "tables/kept_layers")
    assert (layers.loc[layers["attention"] != "encoder", "kept"] == HEADS).all()
    quarter = layers[(layers["attention"] == "encoder") & (layers["fraction"] == 0.25)]
    assert (quarter.groupby("way")["kept"].sum() == ENCODER // 4).all()


# --- a translator that the config describes, whose vocabulary is made from the texts of its tasks

SIZES = {"layers": 1, "heads": 4, "hidden": 32, "dropout": 0.0, "vocabulary": 45}
DESCRIBED: dict[str, Any] = STUDY | {
    "methods": ["tuned"],
    "models": {"fresh": {"transformer": SIZES, "max_length": 16}},
    "tasks": {
        name: TASK | {"label": name, "target_language": name, "validation_examples": 40}
        for name in ("same", "back")
    },
    "training": {"epochs": 12, "batch_size": 16, "learning_rate": 5e-3, "warmup": 0.1},
    "pruning": {"fraction": 0.3, "fractions": [], "draws": 2},
    "gates": {"pruning_methods": ["importance", "fresh"], "kept": [0.5], "scope": ["shared"], "epochs": 1},
}
DESCRIBED_RUN = "runs/fresh/same+back/tuned/seed0"
PRUNED = f"results/tiny/{DESCRIBED_RUN}/pruning.parquet"
KEPT = f"results/tiny/{DESCRIBED_RUN}/gates/fresh/shared/0.5/evaluation.parquet"


@pytest.fixture(scope="module")
def described(finish) -> Folder:
    targets = PRUNED, f"results/tiny/{DESCRIBED_RUN}/atlas/attention.parquet", KEPT
    return finish(
        "described", DESCRIBED, targets, lambda path: write_corpus(path / "texts" / "pairs.tsv", 150)
    )


def test_it_learns_both_languages_from_its_own_vocabulary(described):
    path = described.results / "vocabulary" / "fresh.parquet"
    made = tables.read(path)
    assert made["piece"].head(5).tolist() == ["<pad>", "</s>", "<unk>", ">>back<<", ">>same<<"]
    frames = [table(described, f"data/{task}/train") for task in DESCRIBED["tasks"]]
    texts = {text for frame in frames for side in ("text_a", "label") for text in frame[side]}
    assert tables.footer(path)["texts"] == len(texts)
    expected = vocabulary.pieces(dict.fromkeys(texts), 45, ["back", "same"], "")
    pd.testing.assert_frame_equal(made, expected, check_dtype=False)

    run = described.results / DESCRIBED_RUN
    classes = json.loads((run / "model" / "classifiers.json").read_text())["classes"]
    assert classes["back"]["prefix"] == ">>back<< "
    assert {ids[0] for ids in table(described, "tokens/fresh/back/train")["input_ids"]} == {3}
    losses = table(described, f"{DESCRIBED_RUN}/training")["loss"]
    assert losses.tail(5).mean() < 0.7 * losses.head(5).mean()
    assert table(described, f"{DESCRIBED_RUN}/pruning")["n_pruned"].max() == int(0.3 * 3 * 4)
    kinds = dict.fromkeys(("encoder", "decoder", "cross"), 1)
    assert tables.footer(run / "pruning.parquet")["attention"]["fresh"] == kinds
    # gates begin with fresh weights again; attention must know which tokens are special
    kept = table(described, f"{DESCRIBED_RUN}/gates/fresh/shared/0.5/evaluation")
    assert set(kept["task"]) == {"same", "back"} and kept["prediction_values"].notna().all()
    assert tables.read(run / "atlas" / "attention.parquet")["layer"].nunique() == 3


def test_what_makes_evaluations_trainings_and_vocabulary_again(described, tmp_path):
    folder = described.copy(tmp_path / "study")
    assert not folder.plan(PRUNED).rules
    folder.set("tasks.back.beams", 3)
    assert {*folder.plan(PRUNED, KEPT).rules} == {"prune", "pruned_run"}
    folder.set("models.fresh.transformer.hidden", 16)
    rules = {*folder.plan(PRUNED).rules}
    assert {"train", "tokenize"} <= rules and "vocabulary" not in rules
    folder.set("models.fresh.transformer.vocabulary", 40)
    assert "vocabulary" in folder.plan(PRUNED).rules
    folder.write(DESCRIBED)
    folder.replace("texts/pairs.tsv", "boat", "ship")
    assert "vocabulary" in folder.plan(PRUNED).rules
