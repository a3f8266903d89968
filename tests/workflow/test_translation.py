"""A study of translation: two languages from one source, as two tasks of one encoder-decoder."""

from __future__ import annotations

import json
import re

import numpy as np
import pyarrow.parquet as pq
import pytest

from headspec import tables
from support import models
from support.running.studies import CONFIG, Folder
from support.tiny import HEADS, KINDS
from support.translators import write_corpus

CONFIG_OF_TEXTS = CONFIG | {
    "seeds": [0],
    "methods": ["tuned"],
    "models": {"marian": {"source": "models/marian", "max_length": 16}},
    "tasks": {
        name: {
            "source": "texts/pairs.tsv",
            "text_a": "en",
            "label": name,
            "type": "translation",
            "validation_examples": 40,
            "prefix": prefix,
        }
        for name, prefix in {"same": "the ", "back": "day "}.items()
    },
    "mixtures": {"pairs": ["same", "back"]},
    "training": {"epochs": 3, "batch_size": 16, "learning_rate": 3e-3},
    "pruning": {"fraction": 0.3, "fractions": [0.5], "draws": 2},
}


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def run(path) -> None:
        folder = Folder.new(path)
        models.make("marian", folder.path / "models" / "marian")
        write_corpus(folder.path / "texts" / "pairs.tsv", 150)
        folder.write(CONFIG_OF_TEXTS)
        folder.snakemake(
            "results/tiny/tables/dissociation.parquet",
            "results/tiny/tables/reliability.parquet",
        )

    return Folder(shared("translation", run))


@pytest.mark.slow
def test_from_texts_to_dissociation(finished):
    run = finished.results / "runs" / "marian" / "same+back" / "tuned" / "seed0"
    assert (run / "model" / "source.spm").exists()
    assert json.loads((run / "model" / "classifiers.json").read_text())["classes"]["same"]["longest"] == 16
    history = tables.read(run / "training.parquet")
    assert history["loss"].tail(5).mean() < 0.8 * history["loss"].head(5).mean()
    log = finished.results / "logs" / run.relative_to(finished.results) / "train.log"
    assert re.search(r"100 %, .*; BLEU: same [\d.]+, back [\d.]+$", log.read_text(), re.MULTILINE)
    importance = pq.read_table(run / "importance.parquet").to_pandas()
    assert importance.groupby("attention")["layer"].max().to_dict() == {
        kind: layers - 1 for kind, layers in KINDS.items()
    }
    assert (importance.groupby(["task", "attention", "layer", "head"])["importance"].mean() > 0).all()
    assert tables.read(run / "importance.parquet")["layer"].nunique() == sum(KINDS.values())

    pruning = tables.read(run / "pruning.parquet")
    assert set(pruning["metric"]) == {"chrf", "bleu", "exact_match"}
    assert pruning["value"].between(0, 1).all()
    assert pruning["n_pruned"].max() == sum(KINDS.values()) * HEADS // 2
    footer = tables.footer(run / "predictions.parquet")
    assert footer["metrics"]["bleu"].startswith("nrefs:1|") and footer["attention"] == {"marian": KINDS}
    stored = pq.read_table(run / "predictions.parquet").to_pandas()
    assert stored["prediction_text"].notna().all() and stored["prediction_text"].nunique() > 1

    rows = tables.read(finished.results / "tables" / "dissociation.parquet")
    assert set(rows["task"]) == {"same", "back"} and set(rows["metric"]) == {"chrf"}
    assert np.isfinite(rows[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
