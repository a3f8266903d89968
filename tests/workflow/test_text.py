"""Snakemake on a tiny study of language modelling: two languages, learnt and prompted."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from torch.nn import functional as F

from headspec import tables
from headspec.models.language import load_language_model
from support import language
from support.running.studies import CONFIG, FILLER, SMALL, TONE, TOPIC, Folder

pytestmark = pytest.mark.slow

LANGUAGES = {"north": [*FILLER[:5], *TOPIC["sea"], *TONE["good"]], "south": [*FILLER[5:], *TOPIC["wood"]]}
MODELS = {"bert": 16, "llama": 24}  # tokens of a text
STUDY: dict[str, Any] = SMALL | {
    "models": {name: {"source": f"models/{name}", "max_length": length} for name, length in MODELS.items()},
    "tasks": {
        name: {"source": f"texts/{name}.csv", "type": "text", "validation_examples": 80} for name in LANGUAGES
    },
    "mixtures": {"pairs": list(LANGUAGES)},
    "methods": ["tuned", "prompted", "atlas"],
    "atlas": {"methods": ["tuned"], "examples": 40, "rankings": ["importance", "relevance", "ablation"],
              "fractions": [0.5], "draws": 2},
    "training": CONFIG["training"] | {"epochs": 15},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 20},
}  # fmt: skip
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("dissociation", "belief")),
    *(f"results/tiny/figures/{name}.png" for name in ("fractions.llama", "curves.llama.north+south.tuned")),
    "explorer",
]
METRICS = ["token_accuracy", "bits_per_token", "bits_per_byte"]


def prepare(path: Path) -> None:
    """Models, and texts of two languages, in which two words tell the next one."""
    for name in MODELS:
        language.make(name, path / "models" / name)
    rng = np.random.default_rng(0)
    for name, words in LANGUAGES.items():
        n, step, length = (rng.integers(*of, size=600) for of in ((len(words),), (1, 4), (6, 14)))
        each = zip(n, step, length, strict=True)
        texts = [" ".join(words[(i + j * k) % len(words)] for k in range(m)) for i, j, m in each]
        pd.DataFrame({"text": texts}).to_csv(path / "texts" / f"{name}.csv", index=False)


@pytest.fixture(scope="module")
def finished(finish) -> Folder:
    return finish("text", STUDY, TARGETS, prepare)


@pytest.mark.parametrize("model", MODELS)
def test_languages_are_learnt(finished, model):
    run = finished.results / "runs" / model / "north+south" / "tuned" / "seed0"
    pruning, predictions = (pd.read_parquet(run / f"{name}.parquet") for name in ("pruning", "predictions"))
    values = pruning[pruning["pruned_for"] == "none"].set_index(["task", "metric"])["value"]
    for task, rows in predictions[predictions["pruned_for"] == "none"].groupby("task"):
        label, predicted = (np.stack(rows[f"{name}_values"].tolist()) for name in ("label", "prediction"))
        right, bits = predicted.sum(axis=0)
        tokens, size, blind, blind_bits = label.sum(axis=0)
        assert values[task][METRICS].tolist() == pytest.approx([right / tokens, bits / tokens, bits / size])
        if model == "llama":  # a masked model learns from one or two tokens of a text
            assert right > 5 * blind and bits < 0.3 * blind_bits
    losses = tables.read(run / "training.parquet")["loss"]
    assert losses.tail(20).mean() < 0.8 * losses.head(20).mean()


@pytest.mark.parametrize("model", MODELS)
def test_a_language_model_as_it_is_predicts_by_its_own_head(finished, model):
    run = finished.results / "runs" / model / "north+south" / "prompted" / "seed0"
    described = json.loads((run / "model" / "classifiers.json").read_text())
    assert described["language_model"] and not (finished.results / "prompts").exists()
    pruning = pd.read_parquet(run / "pruning.parquet").query("pruned_for == 'none' and task == 'north'")
    tokens = tables.read(finished.results / "tokens" / model / "north" / "validation.parquet")
    nats, predicted = 0.0, 0
    whole = load_language_model(finished.path / "models" / model, "here", causal=model == "llama")
    for ids, targets in zip(tokens["input_ids"], tokens["targets"], strict=True):
        with torch.no_grad():
            logits = whole(input_ids=torch.tensor([ids.tolist()])).logits[0].float()
        nats += F.cross_entropy(
            logits, torch.tensor(targets.tolist()), ignore_index=-1, reduction="sum"
        ).item()
        predicted += (targets >= 0).sum()
    bits = nats / np.log(2) / predicted
    assert pruning.set_index("metric")["value"]["bits_per_token"] == pytest.approx(bits, rel=1e-4)


def test_languages_dissociate_by_the_share_of_tokens_and_heads_are_measured(finished):
    table = pd.read_parquet(finished.results / "tables/dissociation.parquet")
    assert {*table["metric"]} == {"token_accuracy"} and {*table["model"]} == {"bert", "llama"}
    tuned = table[table["method"] == "tuned"]
    assert np.isfinite(tuned[["dissociation", "ci_low", "ci_high", "p_value"]]).all(axis=None)
    llama = tuned["model"] == "llama"  # of a masked model, one or two tokens of a text are too few
    assert not tuned.loc[llama, "unpruned_at_chance"].any()
    heads = pd.read_parquet(finished.results / "tables" / "heads.parquet")
    assert np.isfinite(heads["value"]).all()
    measures = ["ablation", "importance", "relevance"]
    spread = heads[heads["measure"].isin(measures)].groupby(["model", "task", "measure"])["value"].std()
    assert len(spread) == 2 * len(LANGUAGES) * len(measures) and (spread > 0).all()
