"""The demo study, reduced: the real encoder and the packaged texts, from config.yaml to the tables."""

import pytest
import yaml

from headspec import tables
from headspec.pipeline.commands import summary
from support.paths import ROOT
from support.running.studies import Folder

pytestmark = pytest.mark.slow


def test_the_reduced_demo(tmp_path):
    folder = Folder.new(tmp_path / "demo")
    config = yaml.safe_load((ROOT / "config.yaml").read_text())
    config["seeds"] = [0]
    for task in ("sentiment", "topic"):
        config["tasks"][task] |= {"train_examples": 320, "validation_examples": 100}
    config["mixtures"] = {"pairs": ["sentiment", "topic"]}
    # two tasks are one pair
    del config["tasks"]["reviews"], config["similarity"], config["iat"], config["transfer"]
    config["importance"]["samples"] = 100
    del config["pruning"]["draw_width"]
    config["pruning"] |= {"fraction": 0.3, "fractions": [0.3], "draws": 3, "draw_examples": 50}
    folder.write(config)
    folder.snakemake("--cores", "1")  # one thread, since other tests run beside it

    results = folder.path / "results" / "demo"
    run = results / "runs/minilm/sentiment+topic/tuned/seed0"
    pruning = tables.read(run / "pruning.parquet")
    assert set(pruning.loc[pruning["pruned_for"] != "none", "n_pruned"]) == {21}  # 30 % of 6 x 12
    base = pruning[pruning["pruned_for"] == "none"].set_index("task")["value"]
    assert base["topic"] > 0.6  # chance is 0.23
    importance = tables.read(run / "importance.parquet")
    assert (importance.groupby("task")["n"].sum() == 100 * 72).all()

    top = pruning[pruning["order"] == "top"].set_index(["pruned_for", "task"])["value"]
    same, other = top["topic", "topic"], top["sentiment", "topic"]
    table = tables.read(results / "tables/dissociation.parquet").set_index(["method", "task"])
    assert table.loc[("tuned", "topic"), "dissociation"] == pytest.approx((other - same) / base["topic"])

    text, _ = summary.summarize(results)
    assert "sentiment+topic" in text and "tuned" in text and "frozen" in text
