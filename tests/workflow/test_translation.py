"""A study of translation: two languages from one source, as two tasks of one encoder-decoder."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from support import models
from support.running.studies import CONFIG, Folder
from support.tiny import HEADS, KINDS
from support.translators import write_corpus

pytestmark = pytest.mark.slow

#: heads whose gates can close here, and those of the decoder, which never close
ENCODER, OTHERS = KINDS["encoder"] * HEADS, (KINDS["decoder"] + KINDS["cross"]) * HEADS
MEASURES = ["importance", "relevance", "confidence", "ablation", "mean_ablation"]
TASK = {"source": "texts/pairs.tsv", "text_a": "en", "type": "translation", "validation_examples": 60}
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
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


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path: Path) -> None:
        folder = Folder.new(path)
        models.make("marian", folder.path / "models" / "marian")
        write_corpus(folder.path / "texts" / "pairs.tsv", 160)
        folder.write(STUDY)
        names = ("dissociation", "reliability")
        folder.snakemake(*(f"results/tiny/tables/{name}.parquet" for name in names), "atlas", "gates")

    return Folder(shared("translation", run))


def table(study: Folder, name: str) -> pd.DataFrame:
    return pq.read_table(study.results / f"{name}.parquet").to_pandas()


def test_languages_are_learnt(finished):
    assert (finished.results / RUN / "model" / "source.spm").exists()
    described = json.loads((finished.results / RUN / "model" / "classifiers.json").read_text())
    assert described["classes"]["same"]["longest"] == 16
    losses = table(finished, f"{RUN}/training")["loss"]
    assert losses.tail(5).mean() < 0.8 * losses.head(5).mean()
    log = (finished.results / "logs" / RUN / "train.log").read_text()
    assert re.search(r"100 %, .*; BLEU: same [\d.]+, back [\d.]+$", log, re.MULTILINE)


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


def test_languages_dissociate(finished):
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


def test_every_stage_follows_the_beams(finished):
    """Predictions with all heads are the same, whichever stage makes them."""
    keys = ["task", "example"]
    ablated, cumulative = (
        tables.read(finished.results / RUN / f"atlas/{name}.parquet") for name in ("ablated", "cumulative")
    )
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


def test_figures_are_there(finished):
    drawn = {path.name.partition(".")[0] for path in (finished.results / "figures").rglob("*.svg")}
    assert {"believe", "heads", "confidence", "ablation", "budgets", "kept", "kept_roles"} <= drawn
