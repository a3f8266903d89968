"""A finished study with whatever once was stale, or ran again for nothing.

Its model is sharded and says in a nested folder how texts become vectors. Its plugins are a kind of task of
several modules, and a file that imports a module of the working folder and reads a file beside it. All files
count as large.
"""

import json
from pathlib import Path
from typing import Any

import pandas as pd

from support.running.studies import CONFIG, SMALL, Folder, bert, tokenizer

MODEL, RUN = "models/shards", "results/tiny/runs/bert/tone+topic/tuned/seed0"
PAIR = {name: CONFIG["tasks"][name] for name in ("tone", "topic")}
SHARD, POOLING = f"{MODEL}/model-00002-of-00008.safetensors", f"{MODEL}/modules/pooling/config.json"
STUDY: dict[str, Any] = SMALL | {
    "models": {"bert": {"source": MODEL, "max_length": 16}},
    "tasks": {**PAIR, "words": {"source": "texts/words.tsv", "type": "lengths"}},
    "mixtures": {"pairs": ["tone", "topic", "words"]},
    "methods": ["tuned"],
    "training": CONFIG["training"] | {"epochs": 1},
    "pruning": {"fraction": 0.5, "fractions": [0.5], "draws": 2},
    "similarity": {"measures": ["common"]},
    "plugins": ["plugin.py", "kinds/lengths"],
}
FILES = {
    "plugin.py": '''"""A measure of similarity."""

import json
from pathlib import Path

import beside
from headspec import plugins


@plugins.similarity_measure("common", "common", of="importance")
def common(a, b):
    """The smaller share of importance, weighted."""
    weight = json.loads(Path(__file__).with_name("weight.json").read_text())
    return weight * float(beside.smaller(a["importance"], b["importance"]).sum())


def unused():
    return 1
''',
    "weight.json": "0.5\n",
    "beside.py": '''"""What the plugin takes from the working folder."""

import numpy as np


def smaller(a, b):
    return np.minimum(a / a.sum(), b / b.sum())


def other(a):
    return a
''',
    "kinds/lengths/__init__.py": "",
    "kinds/lengths/kind.py": '''"""Numbers of words."""

from headspec.tasks.kind import Kind


class Lengths(Kind):
    about = "a length"
    metrics = ("near", "spearman")


KIND = Lengths()
''',
    "kinds/lengths/data.py": '''"""Lengths from a column of numbers."""

from headspec.tasks.kinds.texts.data import Regression


class Numbers(Regression):
    def classes(self, task, labels):
        return {"type": task.type}


DATA = Numbers()
''',
    "kinds/lengths/head.py": '''"""A length, by a link function."""

from headspec.tasks.kinds.texts.head import Score

from .links import link


class Length(Score):
    def losses(self, model, states, targets):
        return link(super().losses(model, states, targets))


HEAD = Length
''',
    "kinds/lengths/links.py": '''"""The link function."""


def link(losses):
    return 2 * losses


def unlinked(losses):
    return losses
''',
    "kinds/lengths/metrics.py": '''"""How often the nearest number is right."""

import numpy as np

from headspec.tasks.metrics import Metric
from headspec.tasks.metrics import each, mean


def nearest(label, predictions):
    return each(label), (np.rint(predictions) == label)[..., None]


def most(label):
    return np.full(len(label), np.median(label))


METRICS = {"near": Metric("nearest numbers", nearest, mean, most)}
''',
}


def pooling(mean: bool) -> str:
    """How texts become vectors: by means over tokens, or by the first token."""
    modes = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    return json.dumps({"word_embedding_dimension": 32} | modes)


def fill(path: Path) -> None:
    """Make the study and its results in a new folder."""
    folder = Folder.new(path)
    folder.replace("workflow/headspec/provenance/hashes.py", "LARGE = 20_000_000", "LARGE = 0")
    bert().save_pretrained(path / MODEL, max_shard_size="12KB")
    assert len([*(path / MODEL).glob("model-*.safetensors")]) > 1
    tokenizer().save_pretrained(path / MODEL)
    modules = {"": "Transformer", "modules/pooling": "Pooling"}
    listed = [
        {"idx": i, "name": str(i), "path": at, "type": f"sentence_transformers.models.{name}"}
        for i, (at, name) in enumerate(modules.items())
    ]
    (path / MODEL / "modules.json").write_text(json.dumps(listed))
    (path / POOLING).parent.mkdir(parents=True)
    (path / POOLING).write_text(pooling(True))
    rows = pd.read_csv(path / "texts" / "topic.tsv", sep="\t")
    rows.assign(label=rows["text"].str.split().str.len()).to_csv(path / "texts" / "words.tsv", sep="\t")
    for name, text in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    folder.write(STUDY)
    folder.snakemake()
