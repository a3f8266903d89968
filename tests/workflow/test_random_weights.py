"""Snakemake on a model with random weights, as a control: every seed has its own, and nothing else reruns."""

from __future__ import annotations

from pathlib import Path

import pytest

from headspec.models.saved import read_encoder
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

RUN = "results/tiny/runs/{}/tone+topic/frozen/seed{}"
DRAWN = {"source": "models/tiny-bert", "max_length": 16, "weights": "random"}
TARGETS = [f"{RUN.format(model, 0)}/evaluation.parquet" for model in ("bert", "drawn")]


def test_every_seed_has_its_own_encoder_and_other_models_rerun_nothing(tmp_path, monkeypatch):
    folder = Folder.new(tmp_path / "study")
    monkeypatch.chdir(folder.path)
    folder.snakemake(TARGETS[0])
    folder.set("models", CONFIG["models"] | {"drawn": DRAWN})
    assert not folder.plan(TARGETS[0]).rules
    both = [TARGETS[1], f"{RUN.format('drawn', 1)}/evaluation.parquet"]
    assert "features" not in folder.plan(*both).rules  # no two seeds have the same
    folder.snakemake(*both)
    weights = [
        read_encoder(Path(RUN.format(model, seed), "model"))[0].state_dict()
        for model, seed in (("bert", 0), ("drawn", 0), ("drawn", 1))
    ]
    name = "encoder.layer.0.attention.self.query.weight"
    stored, first, second = (each[name] for each in weights)
    assert stored.std() > 3 * first.std()
    assert not first.equal(second)
    folder.set("models.drawn.weights", "pretrained")
    assert "train" in folder.plan(*both).rules
