"""The table of leaks: what once was stale, or ran again for nothing, on a study with whatever let it.

Its model is sharded and says in a nested folder how texts become vectors. Its plugins are a kind of task of
several modules, and a file that imports a module of the working folder and reads a file beside it. All files
count as large.
"""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from support.running.studies import CONFIG, SMALL, Folder, bert, tokenizer

pytestmark = pytest.mark.slow

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
    modes = {"pooling_mode_mean_tokens": mean, "pooling_mode_cls_token": not mean}
    return json.dumps({"word_embedding_dimension": 32} | modes)


def fill(path: Path) -> None:
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


@pytest.fixture(scope="module")
def made(shared) -> Folder:
    return Folder(shared("leaks", fill))


@pytest.fixture
def study(made, tmp_path) -> Folder:
    return made.copy(tmp_path / "study")


def edit(name: str, old: str, new: str) -> Callable[[Folder], None]:
    return lambda study: study.replace(name, old, new)


def flipped(name: str) -> Callable[[Folder], None]:
    """A bit of a file has changed, and neither its size nor its dates."""

    def change(study: Folder) -> None:
        path = study.path / name
        data, times = bytearray(path.read_bytes()), path.stat()
        data[-2] ^= 1
        path.write_bytes(data)
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))

    return change


def replaced_shard(study: Folder) -> None:
    """A link to weights of the same size elsewhere takes the place of a shard."""
    flipped(SHARD)(study)
    (study.path / SHARD).rename(study.path / "elsewhere")
    (study.path / SHARD).symlink_to(study.path / "elsewhere")


COMPARED = {"similarity": 1, "correlation": 1}
SCORED = {"reliability": 1, "contrasts": 1, "dissociation": 1, "correlation": 1}
TRAINED = {"train": 6, "importance": 6, "prune": 3, "similarity": 1} | SCORED
#: what is done, and the jobs that run again but for figures
STALE: dict[str, tuple[Callable[[Folder], None], dict[str, int]]] = {
    "a bit of a shard": (flipped(SHARD), TRAINED),
    "a shard replaced by a link": (replaced_shard, TRAINED),
    "the pooling, two folders deep": (
        edit(POOLING, *(pooling(mean) for mean in (True, False))), TRAINED),
    "the words of the tokenizer": (edit(f"{MODEL}/tokenizer.json", '"tram"', '"trams"'),
                                   TRAINED | {"tokenize": 3}),
    "a module of a kind of task, imported by another": (
        edit("kinds/lengths/links.py", "2 * losses", "3 * losses"),
        {"train": 3, "importance": 3, "prune": 2, "similarity": 1} | SCORED),
    "a metric of a kind of task": (edit("kinds/lengths/metrics.py", "np.rint", "np.round"),
                                   {"prune": 2, "similarity": 1} | SCORED),
    "a metric that its tasks take from another kind": (
        edit("workflow/headspec/tasks/kinds/texts/metrics.py", '"spearman": SPEARMAN', '"spearman": PEARSON'),
        {"prune": 3, "similarity": 1} | SCORED),
    "a module of the working folder that a plugin imports": (
        edit("beside.py", "np.minimum(", "np.minimum(1 * "), COMPARED),
    "a file that a plugin reads": (edit("weight.json", "0.5", "0.25"), COMPARED),
    "a bit of trained weights": (flipped(f"{RUN}/model/model.safetensors"),
                                 {"train": 1, "importance": 1, "prune": 1} | SCORED),
    "a bit of the record of trained weights": (flipped(f"{RUN}/model/classifiers.json"),
                                               {"train": 1, "importance": 1, "prune": 1} | SCORED),
}  # fmt: skip


@pytest.mark.parametrize(("change", "expected"), STALE.values(), ids=STALE)
def test_what_is_stale_runs_again_and_nothing_else(study, change, expected):
    change(study)
    for _ in range(2):  # the first plan keeps what it has read
        rules = study.plan().rules
        assert {rule: n for rule, n in rules.items() if not rule.startswith("figure_")} == expected


def beside_the_model(study: Folder) -> None:
    for name in ("README.txt", "trainer_state.json", "onnx/config.json", "modules/eval/results.json"):
        path = study.path / MODEL / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("{}\n")


#: what was stale to the letter only
CURRENT: dict[str, Callable[[Folder], None]] = {
    "files beside the model": beside_the_model,
    "a module beside the plugin that it does not import": lambda study: (
        study.path / "another.py"
    ).write_text("X = 1\n"),
}  # fmt: skip


def test_what_is_current_does_not_run_again(study):
    for change in CURRENT.values():
        change(study)
    assert study.plan().rules == {}


#: what happens to the config that a start leaves beside its results
DAMAGES: dict[str, Callable[[bytes], bytes]] = {
    "a byte": lambda text: text[:40] + b"\xff" + text[41:],
    "a quote in the first line": lambda text: text.replace(b"\n", b" '\n", 1),
    "no YAML": lambda text: text + b"}{\n",
    "a list": lambda text: b"- 1\n",
    "empty": lambda text: b"",
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_config_of_results_stops_nothing(study, damage):
    path = study.results / "config.yaml"
    before = path.read_bytes()
    path.write_bytes(damage(before))
    study.set("figures.dpi", 61)
    output = study.snakemake("results/tiny/figures/similarity.bert.png")
    assert f"{path.relative_to(study.path)}: damaged or edited since an earlier start" in output
    assert path.read_bytes() != before and b"dpi: 61" in path.read_bytes()
