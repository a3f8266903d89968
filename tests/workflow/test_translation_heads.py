"""Snakemake on the heads of a tiny translation model: atlas, and gates on encoder heads alone."""

from __future__ import annotations

import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from support import models
from support.running.studies import CONFIG, Folder
from support.tiny import HEADS, KINDS
from support.translators import write_corpus

pytestmark = pytest.mark.slow

#: fractions 0.25 of the encoder's heads, and the heads of the decoder, which never close
ENCODER, OTHERS = KINDS["encoder"] * HEADS, (KINDS["decoder"] + KINDS["cross"]) * HEADS
TASK = {"source": "texts/pairs.tsv", "text_a": "en", "type": "translation", "validation_examples": 60}
STUDY = CONFIG | {
    "seeds": [0],
    "methods": ["tuned", "atlas", "gates"],
    "models": {"marian": {"source": "models/marian", "max_length": 16}},
    "tasks": {name: TASK | {"label": name, "beams": beams} for name, beams in {"same": 1, "back": 3}.items()},
    "mixtures": {"pairs": ["same", "back"]},
    "training": {"epochs": 1, "batch_size": 16, "learning_rate": 3e-3},
    "pruning": {"fraction": 0.3, "fractions": [], "draws": 2},
    "atlas": {
        "examples": 40, "draws": 2, "fractions": [0.5],
        "rankings": ["importance", "relevance", "confidence", "ablation", "mean_ablation"],
    },
    "gates": {
        "pruning_methods": ["importance", "l0", "fresh"], "source": "importance", "kept": [0.25], "epochs": 1,
        "penalties": [1.0], "attention": ["encoder"],
    },
}  # fmt: skip


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path) -> None:
        folder = Folder.new(path)
        models.make("marian", folder.path / "models" / "marian")
        write_corpus(folder.path / "texts" / "pairs.tsv", 160)
        folder.write(STUDY)
        folder.snakemake("atlas", "gates")

    return Folder(shared("translation_heads", run))


def table(study: Folder, name: str) -> pd.DataFrame:
    return pq.read_table(study.results / "tables" / f"{name}.parquet").to_pandas()


def test_every_head_is_measured_and_those_of_self_attention_have_roles(finished):
    heads = table(finished, "heads")
    for measure in ("importance", "relevance", "confidence", "ablation", "mean_ablation"):
        of_measure = heads[(heads["measure"] == measure) & (heads["task"] == "back")]
        assert of_measure.groupby("attention")["layer"].nunique().to_dict() == KINDS, measure
        assert len(of_measure) == ENCODER + OTHERS
    places = heads[heads["measure"].isin(["distance", "to_self"])]
    assert {*places["attention"]} == {"encoder", "decoder"}
    assert {*table(finished, "head_roles")["attention"]} == {"encoder", "decoder"}
    belief = table(finished, "belief")
    assert belief["area"].between(0, 1).all()


def test_every_stage_follows_the_beams(finished):
    """What is predicted with all heads is the same, whichever stage predicts it."""
    keys = ["task", "example"]
    (folder,) = {path.parent for path in (finished.results / "runs").rglob("ablated.parquet")}
    ablated, cumulative = (tables.read(folder / f"{name}.parquet") for name in ("ablated", "cumulative"))
    assert ablated["measure"].isna().any() and (cumulative["fraction"] == 0).any()
    found, whole = (
        frame.drop_duplicates(keys).set_index(keys)["prediction"].sort_index()
        for frame in (ablated[ablated["measure"].isna()], cumulative[cumulative["fraction"] == 0])
    )
    assert len(found) == 80 and found.equals(whole)


def test_heads_of_the_encoder_close_alone(finished):
    budgets = table(finished, "budgets").query("task == 'back' and metric == 'chrf'")
    asked = budgets[budgets["fraction"] == 0.25]
    assert {*asked["way"]} == {"importance", "l0", "fresh"}
    assert (asked["heads"] == OTHERS + ENCODER // 4).all() and asked["value"].between(0, 1).all()
    left = budgets[budgets["fraction"].isna()].drop_duplicates("penalty", keep="first")
    assert left["penalty"].isna().sum() == 1 and left["penalty"].dropna().tolist() == [1.0]
    layers = table(finished, "kept_layers")
    others = layers[layers["attention"] != "encoder"]
    assert (others["kept"] == HEADS).all()
    of_encoder = layers[(layers["attention"] == "encoder") & (layers["fraction"] == 0.25)]
    assert (of_encoder.groupby("way")["kept"].sum() == ENCODER // 4).all()


def test_figures_are_there(finished):
    drawn = {path.name.partition(".")[0] for path in (finished.results / "figures").rglob("*.svg")}
    assert {"believe", "heads", "confidence", "ablation", "budgets", "kept", "kept_roles"} <= drawn
