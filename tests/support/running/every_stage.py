"""A tiny study that has every stage, as small as it can be."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from support.data import brains, treebanks
from support.running.studies import CONFIG, Folder

TASKS: dict[str, Any] = CONFIG["tasks"]
TONE: dict[str, Any] = TASKS["tone"] | {
    "labels": {"bad": "negative", "good": "positive"}, "further": {"more": "more"}, "test": {"SST-2": "test"},
}  # fmt: skip
STUDY: dict[str, Any] = CONFIG | {
    "seeds": [0],
    "tasks": TASKS | {"tone": TONE, "pos": {"source": "texts/bank/trees", "type": "tags"}},
    "mixtures": {"pairs": ["tone", "topic", "match"], "groups": {"words": ["tone", "pos"]}},
    "methods": ["tuned", "frozen", "iat", "atlas"],
    "training": CONFIG["training"] | {"epochs": 1, "checkpoint_minutes": 0, "frozen": {"epochs": 1}},
    "pruning": {"fraction": 0.3, "fractions": [0.3], "draws": 2, "draw_examples": 10},
    "similarity": {"measures": ["text", "cka", "fisher", "lookahead", "importance", "cnm"],
                   "max_sentences": 60},
    "iat": {"mixtures": ["tone+topic"], "controls": ["random"], "deltas": [0.2]},
    "transfer": {"tasks": ["match"], "samples": [4], "draws": 2, "methods": ["pretrained", "tuned"]},
    "atlas": {"methods": ["tuned", "frozen"], "mixtures": ["tone+topic"], "examples": 40, "fractions": [0.5],
              "rankings": ["importance", "confidence"], "draws": 2, "sentences": 50},
    "gates": {"mixtures": ["tone+topic"], "scope": ["per_task"], "kept": [0.5], "epochs": 1,
              "pruning_methods": ["importance", "rescored", "l0", "subset"], "keep_models": ["subset"]},
    "probes": {"mixtures": ["words"]},
    "figures": {"dpi": 60, "formats": ["png"]},
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
    brain = {"stimuli": "brain/stimuli.csv", "responses": "brain/responses.parquet"}
    folder.write(STUDY | {"brain": brain})
    return folder
