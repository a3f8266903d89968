"""Snakemake on a tiny prompted model whose weights are quantised as they are loaded."""

import json
from pathlib import Path

import numpy as np
import pytest

from headspec import tables
from headspec.models.attention.projections import is_packed
from headspec.models.multitask import MultiTask
from support import language
from support.running.studies import CONFIG, SMALL, Folder

pytest.importorskip("bitsandbytes")
pytestmark = pytest.mark.slow

RANKINGS = [
    *("importance", "token_importance", "gradient_x_activation", "relevance", "ablation", "mean_ablation"),
    *("confidence", "specific", "integrated_gradient", "resample_ablation", "exclusive", "rescored"),
]
TARGETS = [
    *(f"results/tiny/tables/{name}.parquet" for name in ("dissociation", "heads", "belief", "head_lists")),
    "results/tiny/figures/curves.llama.tone+whole.prompted.png",
]


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    def fill(path: Path) -> None:
        folder = Folder.new(path)
        known = language.answers(language.make("llama", path / "models" / "tiny-llama")).values()
        (path / "heads.csv").write_text("layer,head\n1,0\n1,2\n")
        tone = CONFIG["tasks"]["tone"] | {
            "prompt": language.PROMPT, "answers": dict(zip(["good", "bad"], known, strict=True)),
            "calibration": True,
        }  # fmt: skip
        folder.write(SMALL | {
            "models": {"llama": {"source": "models/tiny-llama", "max_length": 60, "quantization": "nf4",
                                 "heads": {"mine": "heads.csv"}}},
            "tasks": {"tone": tone, "whole": tone | {"answers": {"good": " really lovely", "bad": " bad"}}},
            "mixtures": {"pairs": ["tone", "whole"]},
            "methods": ["prompted", "atlas"],
            "importance": {"samples": 20},
            "pruning": {"fraction": 0.3, "fractions": [], "heads": [1, 2], "draws": 2},
            "atlas": {"methods": ["prompted"], "examples": 40, "rankings": RANKINGS, "fractions": [0.5],
                      "draws": 2},
        })  # fmt: skip
        folder.snakemake(*TARGETS)

    return Folder(shared("quantised", fill))


def test_the_whole_path_runs_on_packed_weights(finished, monkeypatch):
    monkeypatch.chdir(finished.path)
    heads = tables.read(finished.results / "tables" / "heads.parquet")
    assert {*RANKINGS} - {"rescored"} <= {*heads["measure"]} and np.isfinite(heads["value"]).all()
    dissociation = tables.read(finished.results / "tables" / "dissociation.parquet")
    assert np.isfinite(dissociation["dissociation"]).all()
    saved = finished.results / "runs/llama/tone+whole/prompted/seed0/model"
    assert json.loads((saved / "config.json").read_text())["pretrained"]["quantization"] == "nf4"
    model = MultiTask.load(saved)
    packed = [name for name, module in model.encoder.named_modules() if is_packed(module)]
    assert len(packed) == 7 * model.gates.layers and model.head is not None
    assert not any(map(is_packed, model.head.modules()))


def test_an_edit_of_the_key_reruns_what_loads_the_model(finished, tmp_path):
    study = finished.copy(tmp_path / "study")
    whole = study.plan(*TARGETS, "--forceall").rules
    study.set("models.llama.quantization", "int8")
    rules = study.plan(*TARGETS).rules
    assert rules["prompted"] == whole["prompted"]
    assert not rules.keys() & {"data", "validation", "prompts", "treebank"}
    assert {"importance", "prune", "listed", "attention", "relevance", "ablation"} <= rules.keys()
