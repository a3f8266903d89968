"""Snakemake on a tiny study of two decoders: of one, not all layers have attention."""

import re
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support import tiny
from support.data import treebanks
from support.running.studies import CONFIG, SMALL, WORDS, Folder, tokenizer

pytestmark = pytest.mark.thorough

#: model: its type, settings, and the layers with attention
MODELS: dict[str, tuple[str, dict[str, Any], set[int]]] = {
    "hybrid": ("lfm2", {}, {1, 3}),
    "gemma": ("gemma2", {"num_key_value_heads": 2, "head_dim": 8}, {0, 1, 2}),
}
#: tables of a run that have rows of heads
PER_HEAD = ("importance", "gates", "roles", "attended", "relevance", "ablation", "attention", "ablated")
STUDY: dict[str, Any] = SMALL | {
    "models": {name: {"source": f"models/{name}", "max_length": 16} for name in MODELS},
    "mixtures": {"pairs": ["tone", "topic"]},
    "methods": ["tuned", "iat", "atlas"],
    "training": CONFIG["training"] | {"epochs": 1},
    "pruning": {"fraction": 0.3, "fractions": [0.5], "draws": 2, "ablation": "resample"},
    "similarity": {"measures": []},
    "iat": {"mixtures": ["tone+topic"], "alpha": 0.3, "controls": []},
    "atlas": {"treebank": {"source": "texts/trees.conllu"}, "examples": 40, "fractions": [0.5], "draws": 2,
              "rankings": ["importance", "mean_ablation", "exclusive", "magnitude"]},
    "gates": {"pruning_methods": ["rescored", "l0-target"], "kept": [0.5], "epochs": 1,
              "keep_models": ["l0-target"]},
}  # fmt: skip
DRAWN = [
    f"{kind}.{name}.tone+topic.tuned"
    for kind in ("importance", "atlas/heads", "gates/kept")
    for name in MODELS
]
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("dissociation", "improvement", "belief")),
    "results/tiny/tables/kept_roles.parquet",
    *(f"results/tiny/figures/{name}.png" for name in DRAWN), "explorer",
]  # fmt: skip


def prepare(path: Path) -> None:
    treebanks.conllu(path / "texts" / "trees.conllu", treebanks.sentences(60, 0))
    words = tokenizer()
    words.model_input_names = ["input_ids", "attention_mask"]
    for name, (kind, settings, _) in MODELS.items():
        tiny.encoder(kind, vocab_size=len(WORDS), **settings).save_pretrained(path / "models" / name)
        words.save_pretrained(path / "models" / name)


@pytest.fixture(scope="module")
def finished(finish) -> Folder:
    return finish("hybrid", STUDY, TARGETS, prepare)


def tables(study: Folder, name: str, pattern: str) -> list[pd.DataFrame]:
    """Tables of runs of a model."""
    found = [pd.read_parquet(path) for path in (study.results / "runs" / name).rglob(pattern)]
    assert found, pattern
    return found


@pytest.mark.parametrize("name", MODELS)
def test_tables_of_heads_have_those_that_exist(finished, name):
    of_model = {(layer, head) for layer in MODELS[name][2] for head in range(tiny.HEADS)}
    for pattern in PER_HEAD:
        for table in tables(finished, name, f"{pattern}.parquet"):
            heads = table.dropna(subset="layer")
            assert {*zip(heads["layer"], heads["head"], strict=True)} == of_model, pattern
            values = heads.select_dtypes("float").drop(columns=["label", "score"], errors="ignore")
            if pattern not in ("gates", "roles"):
                assert values.notna().all(axis=None), pattern
    for path in (finished.results / "tables").glob("*.parquet"):
        table = pd.read_parquet(path)
        if {"layer", "head", "model"} <= {*table}:
            heads = table[(table["model"] == name) & table["layer"].notna()]
            assert {*zip(heads["layer"], heads["head"], strict=True)} in (of_model, set()), path.name


@pytest.mark.parametrize("name", MODELS)
def test_fractions_are_of_the_heads_that_exist(finished, name):
    total = len(MODELS[name][2]) * tiny.HEADS
    (pruning,) = tables(finished, name, "tuned/seed0/pruning.parquet")
    numbers = dict(zip(pruning["fraction"], pruning["n_pruned"], strict=True))
    assert numbers == {0.0: 0, 0.3: int(0.3 * total), 0.5: total // 2}
    for table in tables(finished, name, "gates/*/*/0.5/gates.parquet"):
        last = table[table["step"] == table["step"].max()]
        assert last["kept"].sum() == total // 2 and len(last) == total


def test_the_explorer_knows_which_heads_are_absent(finished):
    page = (finished.results / "explorer.html").read_text()
    assert '"absent":[0,1,2,3,8,9,10,11]' in re.sub(r"\s", "", page)
