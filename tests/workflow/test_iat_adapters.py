"""Snakemake on IAT that continues the adapters of a decoder, with ALPS's heads as a control."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file

from headspec import tables
from headspec.heads.ranking import importance_map, prune_count, top_heads
from headspec.training.checkpoint import read
from support import tiny
from support.running.studies import CONFIG, SMALL, WORDS, Folder, tokenizer

pytestmark = pytest.mark.slow

LAYERS, HEADS, SIZE = 3, 4, 8
SHAPE = (LAYERS, HEADS)
STUDY = SMALL | {
    "models": {"llama": {"source": "models/llama", "max_length": 16}},
    "mixtures": {"pairs": ["tone", "topic"]},
    "methods": ["lora", "iat"],
    "training": CONFIG["training"] | {"epochs": 2, "lora": {"rank": 4, "learning_rate": "1e-2"}},
    "pruning": {"fraction": 0.3, "fractions": [0.5], "draws": 2},
    "similarity": {"measures": []},
    "iat": {"mixtures": ["tone+topic"], "alpha": 0.2, "delta": 0.2, "projections": "qkvo",
            "controls": ["alps"]},
}  # fmt: skip


def prepare(path: Path) -> None:
    sizes = {"num_hidden_layers": LAYERS, "num_attention_heads": HEADS, "num_key_value_heads": HEADS}
    tiny.encoder("llama", vocab_size=len(WORDS), **sizes).save_pretrained(path / "models" / "llama")
    words = tokenizer()
    words.model_input_names = ["input_ids", "attention_mask"]
    words.save_pretrained(path / "models" / "llama")


@pytest.fixture(scope="module")
def trained(finish) -> Folder:
    return finish("iat of adapters", STUDY, ["iat"], prepare)


def table(folder: Folder, run: str, name: str):
    return tables.read(folder.results / "runs" / "llama" / run / "seed0" / name)


def rows_of_queries(folder: Folder, run: str) -> tuple[torch.Tensor, torch.Tensor]:
    """B of W_Q by head, (layers, heads, size, rank), at the branch and in the model of a run."""
    runs = folder.results / "runs" / "llama" / "tone+topic"
    name = "layers.{}.self_attn.q_proj.{}"
    state = read(runs / "lora" / "seed0" / "branch" / "0.2" / "state.pt")["model"]
    weights = load_file(runs / run / "seed0" / "model" / "model.safetensors")
    before, after = (
        torch.stack([values[key.format(layer)] for layer in range(LAYERS)])
        for values, key in (
            (state, "encoder." + name.format("{}", "lora_B.default.weight")),
            (weights, "adapters." + name.format("{}", "B")),
        )
    )
    return before.unflatten(1, (HEADS, SIZE)), after.unflatten(1, (HEADS, SIZE))


def scores(folder: Folder, run: str) -> list[np.ndarray]:
    """By which the run chose the heads of each task."""
    if run == "iat":
        frame = table(folder, "tone+topic/lora", "branch/0.2/importance.parquet")
        return [importance_map(frame, task) for task in ("tone", "topic")]
    alone = {task: table(folder, f"{task}/single", "atlas/alps.parquet") for task in ("tone", "topic")}
    return [importance_map(frame, task, "value") for task, frame in alone.items()]


@pytest.mark.parametrize("run", ["iat", "iat-alps"])
def test_rows_of_adapters_change_of_exactly_the_heads_that_a_task_owns(trained, run):
    maps = scores(trained, run)
    assert all((each > 0).all() and each.shape == SHAPE for each in maps)
    n = prune_count(0.2, LAYERS * HEADS)
    owned = np.any([top_heads(each, n) for each in maps], axis=0)
    before, after = rows_of_queries(trained, run)
    assert ((before != after).any(-1).any(-1).numpy() == owned).all() and 0 < owned.sum() < owned.size


def test_all_runs_are_adapters_of_the_pretrained_decoder(trained):
    runs = ("tone+topic/lora", "tone+topic/iat", "tone+topic/iat-alps", "tone/single", "topic/single")
    for run in runs:
        model = trained.results / "runs" / "llama" / run / "seed0" / "model"
        assert "pretrained" in json.loads((model / "config.json").read_text())
        assert {name.split(".")[0] for name in load_file(model / "model.safetensors")} == {
            "adapters",
            "classifiers",
        }


def test_tables_and_figures_compare_with_plain_training_by_adapters(trained):
    improvement = tables.read(trained.results / "tables" / "improvement.parquet")
    assert {*improvement["method"]} == {"lora", "iat", "iat-alps", "single"}
    against = improvement.groupby("method")["against"].first().dropna().to_dict()
    assert against == {"iat": "lora", "iat-alps": "lora", "single": "lora"}
    specialization = tables.read(trained.results / "tables" / "specialization.parquet")
    assert set(specialization["task"]) == {"tone", "topic", "mean"}
    figures = {path.stem.split(".")[0] for path in (trained.results / "figures").iterdir()}
    assert figures == {"verdict", "improvement", "specialization"}
    assert not trained.plan("iat").rules
