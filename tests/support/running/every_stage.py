"""A tiny study that has every stage, as small as it can be."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.data import brains, treebanks
from support.running.studies import CONFIG, SMALL, Folder

TASKS: dict[str, Any] = {
    "tone": CONFIG["tasks"]["tone"] | {
        "labels": {"bad": "negative", "good": "positive"}, "further": {"more": "more"},
        "test": {"SST-2": "test"},
    },
    "topic": CONFIG["tasks"]["topic"],
    "pos": {"source": "texts/bank/trees", "type": "tags"},
}  # fmt: skip
#: measures of affinity, and all measures of similarity
AFFINITIES = ["lookahead", "lookahead-single", "grad-tag"]
SIMILARITIES = ["paradigm", "text", "cka", "fisher", "importance", "cnm", *AFFINITIES]
RANKINGS = ["importance", "confidence", "l0", "subset"]
PRUNING_METHODS = ["rescored", "l0", "subset", "fresh", "ablation"]
STUDY: dict[str, Any] = SMALL | {
    "precision": "fp32",
    "tasks": TASKS,
    "mixtures": {"pairs": [*TASKS]},
    "methods": ["tuned", "frozen", "iat", "atlas"],
    "training": CONFIG["training"] | {"epochs": 1, "frozen": {"epochs": 1}},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 10},
    "similarity": {"measures": SIMILARITIES, "max_sentences": 60, "samples": 30},
    "iat": {"mixtures": ["tone+pos"], "controls": ["random"], "alphas": [1], "deltas": [0]},
    "transfer": {"tasks": ["topic"], "samples": [4], "draws": 2, "methods": ["pretrained", "tuned"]},
    "atlas": {"methods": ["tuned", "frozen"], "mixtures": ["tone+topic"], "examples": 40, "fractions": [0.5],
              "rankings": RANKINGS, "bottom": True, "draws": 2, "sentences": 50,
              "treebank": {"source": "texts/bank/trees/train.conllu"}},
    "gates": {"mixtures": ["tone+topic"], "scope": ["shared", "per_task"], "kept": [0.5], "epochs": 1,
              "pruning_methods": PRUNING_METHODS, "keep_models": ["subset"]},
    "probes": {"mixtures": ["tone+pos"]},
}  # fmt: skip
TARGETS = "all", "iat", "atlas", "gates", "probes", "grouping", "submission", "preview"


def new(path: Path) -> Folder:
    """A folder with this study, before any job."""
    folder = Folder.new(path)
    texts = folder.path / "texts" / "tone"
    rows = pd.read_parquet(texts / "validation.parquet")
    rows.assign(sentence="more " + rows["sentence"]).to_parquet(texts / "more.parquet")
    rows.to_parquet(texts / "test.parquet")
    treebanks.write(folder.path / "texts" / "bank")
    values = brains.smooth(np.random.default_rng(0), (40, 6))
    (folder.path / "brain").mkdir()
    brains.save(folder.path / "brain", {"s0": values, "s1": values})
    files = {"stimuli": "brain/stimuli.csv", "responses": "brain/responses.parquet"}
    folder.write(STUDY | {"brain": files | {"nuisance": ["frequency"]}})
    return folder
