"""Snakemake on tasks that share texts, local and on the hub: leaks left out, effects of changes."""

from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from headspec import tables
from headspec.data.overlap import occurs, with_keys
from support.data.hub import cache_dataset
from support.running.edits import setting
from support.running.studies import CONFIG, Folder

pytestmark = pytest.mark.slow

OFFLINE = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": "cache"}
TABLES = [
    f"results/tiny/data/{t}/{s}.parquet" for t in ("tone", "topic", "far") for s in ("train", "validation")
]


def far(folder: Path, tone: dict[str, list[str]], learnt: int) -> None:
    """A data set as on the hub; `learnt` of its training texts are validation texts of `tone`."""
    splits = {
        "train": [*tone["validation"][:learnt], *(f"train {i}" for i in range(100 - learnt))],
        "validation": [*tone["train"][:7], *(f"validation {i}" for i in range(20))],
        "test": [*tone["train"][10:13], *(f"odd {i}" for i in range(20))],
    }
    folder.mkdir(parents=True)
    for split, texts in splits.items():
        rows = pd.DataFrame({"text": texts, "label": [("a", "b")[i % 2] for i in range(len(texts))]})
        rows.assign(text=rows["text"].str.upper()).to_parquet(folder / f"{split}.parquet")


def prepared(path: Path) -> None:
    """Tone and topic in one mixture, tone and a task of the hub in another; only texts are prepared."""
    study, texts = Folder.new(path), path / "texts"
    topic = pd.read_csv(texts / "topic.tsv", sep="\t")["text"].drop_duplicates().head(12)
    held = pd.read_parquet(texts / "tone" / "validation.parquet")
    held = pd.concat([held, pd.DataFrame({"sentence": topic, "label": ["good", "bad"] * 6})])
    held.to_parquet(texts / "tone" / "validation.parquet")
    train = pd.read_parquet(texts / "tone" / "train.parquet")["sentence"]
    tone = {
        "validation": held["sentence"].tolist(),
        "train": train[~train.isin(held["sentence"])].unique().tolist(),
    }
    for name, learnt in {"far": 5, "near": 30}.items():
        far(path.parent / name, tone, learnt)
        cache_dataset(path.parent / name, study.path / "cache", f"someone/{name}")
    tasks = {name: CONFIG["tasks"][name] for name in ("tone", "topic")}
    tasks["far"] = {"source": "hub:someone/far@1", "further": {"far-odd": "test"}}
    mixtures = {"groups": {"here": ["tone", "topic"], "there": ["tone", "far"]}}
    study.write(CONFIG | {"tasks": tasks, "mixtures": mixtures, "methods": ["tuned"]})
    # validation and split are of the hub's task
    rules = study.plan("results/tiny/data/tone/train.parquet").rules
    assert rules == {"validation": 1, "split": 1, "data": 1}
    study.snakemake(*TABLES, **OFFLINE)


@pytest.fixture(scope="module")
def finished(shared) -> Folder:
    return Folder(shared("shared-texts", prepared))


@pytest.fixture
def study(finished, tmp_path) -> Folder:
    return finished.copy(tmp_path / "study")


def read(study: Folder, task: str, split: str) -> pd.DataFrame:
    return with_keys(tables.read(study.results / "data" / task / f"{split}.parquet"), 0)


def test_validation_texts_of_other_tasks_are_left_out_and_counted(finished):
    left_out = {"tone": {"far": 10}, "far": {"tone": 5}, "topic": {"tone": 12}}
    held = read(finished, "topic", "validation")
    left_out["topic"]["tone"] -= int(occurs(held, read(finished, "tone", "validation")).sum())
    for task, leaks in left_out.items():
        footer = tables.footer(finished.results / "data" / task / "train.parquet")
        assert footer["leaks"] == leaks and footer["counts"]["in_other_tasks"] == sum(leaks.values())
        log = (finished.results / "logs" / "data" / f"{task}.log").read_text()
        for other, n in leaks.items():
            assert f"left out: {n} examples with texts that {other} is evaluated on" in log
            assert not occurs(read(finished, task, "train"), read(finished, other, "validation")).any()
    assert not occurs(read(finished, "tone", "train"), read(finished, "far", "further/far-odd")).any()
    assert len(read(finished, "tone", "validation")) == 72


def reworded(study: Folder) -> None:
    """A text that only tone is evaluated on."""
    path = study.path / "texts" / "tone" / "validation.parquet"
    frame = pd.read_parquet(path)
    frame.iloc[0, 0] += " lovely"
    frame.to_parquet(path)


def moved(study: Folder) -> None:
    """One more text of topic on which tone is evaluated."""
    path = study.path / "texts" / "tone" / "validation.parquet"
    train = tables.read(study.results / "data" / "topic" / "train.parquet")
    row = pd.DataFrame({"sentence": [train["text_a"][0]], "label": ["good"]})
    pd.concat([pd.read_parquet(path), row]).to_parquet(path)


def touched(study: Folder) -> None:
    for path in [*(study.path / "texts").rglob("*.parquet"), *study.results.rglob("validation.parquet")]:
        path.touch()


def local_task(study: Folder) -> None:
    study.set("tasks.match", CONFIG["tasks"]["match"])
    study.set("mixtures.groups.here", ["tone", "topic", "match"])


#: the change; tasks whose training texts would be read again, and what else would run
CHANGES: dict[str, tuple[Callable[[Folder], None], set[str], dict[str, int]]] = {
    "training texts of the hub": (setting("tasks.far.train_examples", 50), {"far"}, {}),
    "held-out texts of the hub":
        (setting("tasks.far.validation_examples", 10), {"far", "tone"}, {"validation": 1, "split": 1}),
    "another number of held-out texts":
        (setting("tasks.topic.validation_examples", 45), {"topic"}, {"validation": 1}),
    "other mixtures": (setting("mixtures.groups.there", ["topic", "far"]), {"tone", "topic", "far"}, {}),
    "a local task added": (local_task, set(), {}),
    # which of the texts the hub's task shares is not known in advance
    "a text of one task alone": (reworded, {"tone", "far"}, {"validation": 1}),
    "a text of two tasks": (moved, {"tone", "topic", "far"}, {"validation": 1}),
    "files touched": (touched, set(), {}),
}  # fmt: skip


@pytest.mark.parametrize(("change", "tasks", "rules"), CHANGES.values(), ids=CHANGES)
def test_a_change_of_one_task_reruns_tasks_that_lose_texts(study, change, tasks, rules):
    change(study)
    plan = study.plan(*TABLES)
    start = "Reading training texts of task "
    assert {m.removeprefix(start) for m in plan.messages if m.startswith(start)} == tasks
    assert plan.rules == rules | ({"data": len(tasks)} if tasks else {})


def test_the_job_refuses_too_many_leaks_on_the_hub(study):
    study.set("tasks.far.source", "hub:someone/near@1")
    study.snakemake("results/tiny/data/far/train.parquet", fails=True, **OFFLINE)
    log = (study.results / "logs" / "data" / "far.log").read_text()
    assert "tasks.far: 30 of 100 training examples have texts on which 'tone' (30) is evaluated" in log
