"""Data sets of the hub, from the cache of `datasets`, without a network."""

import json
import os
import pickle
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from headspec.config.sections.task import Task
from headspec.data import prepare, splits
from headspec.data.sources import readers
from headspec.errors import DataError
from support.data.hub import REVISION, cache_dataset, offline
from support.data.sources import rows

NAMES = ["neg", "pos"]
CODE = type("Code", (), {"__reduce__": lambda self: (os.mkdir, ("trace",))})()


@pytest.fixture
def cached(here, monkeypatch) -> Callable[..., None]:
    """A function that puts a data set of splits, or of subsets and splits, into the cache."""
    import datasets

    offline(monkeypatch, here / "cache")
    kinds = {"text": datasets.Value("string"), "label": datasets.ClassLabel(names=NAMES)}
    kinds |= {"words": datasets.List(kinds["text"]), "upos": datasets.List(kinds["label"])}
    features = datasets.Features(kinds | {"idx": datasets.Value("int32")})

    def make(name: str, sizes: dict[str, int]) -> None:
        subsets: dict[str, list[dict[str, str]]] = {}
        for split, n in sizes.items():
            columns = {"text": [f"{split} {i}" for i in range(n)], "idx": [*range(n)]}
            columns |= {"label": [-1] * n if split.endswith("test") else [i % 2 for i in range(n)]}
            columns |= {"words": [["a", "b"]] * n, "upos": [[0, 1]] * n}
            path = Path("made", f"{split}.parquet")
            path.parent.mkdir(parents=True, exist_ok=True)
            datasets.Dataset.from_dict(columns, features=features).to_parquet(path)
            subset, _, own = split.rpartition("/")
            subsets.setdefault(subset, []).append({"split": own, "path": f"{split}.parquet"})
        if [*subsets] != [""]:
            configs = [{"config_name": subset, "data_files": files} for subset, files in subsets.items()]
            Path("made", "README.md").write_text(f"---\nconfigs: {json.dumps(configs)}\n---\n")
        cache_dataset(Path("made"), here / "cache", name)

    return make


def refused(source: str, **settings: object) -> str:
    with pytest.raises(DataError) as caught:
        rows(source, **settings)
    return str(caught.value)


@pytest.mark.parametrize("revision", ["", "@0123abc", f"@{REVISION}"])
def test_data_are_read_from_the_cache(cached, revision):
    cached("someone/reviews", {"train": 10, "validation": 4})
    source = f"hub:someone/reviews{revision}"
    task = Task(source=source)
    assert readers.splits(task, "tasks.t") == ["train", "validation"]
    read = rows(source)
    assert read["validation"] == [(f"validation {i}", NAMES[i % 2]) for i in range(4)]
    assert len(read["train"]) == 10
    assert readers.files(task) == [] and readers.version(source) == revision[1:]
    tags = rows(source, type="tags")["train"]
    assert tags == [("a b", '[[0,"neg"],[1,"pos"]]')] * 10  # lists of classes


def test_errors_name_the_key(cached):
    cached("someone/reviews", {"train": 10})
    other = refused(f"hub:someone/reviews@{REVISION[::-1]}")
    assert other.startswith("tasks.t.source: ") and f"which has commit {REVISION}, and the hub does" in other
    assert other.endswith("expected a connection")
    missing = refused("hub:no/such@1")
    assert missing.startswith("tasks.t.source: 'hub:no/such@1' is not in the cache ")
    assert "no connection" in missing
    source = "hub:someone/reviews@0123abc"
    assert "tasks.t.label: no column 'lable' " in (column := refused(source, label="lable"))
    assert "Did you mean 'label'?" in column
    assert "cannot be loaded (" in (subset := refused(source, subset="sst2")) and "sst2" in subset


@pytest.mark.parametrize("name", ["me/reviews", "reviews"])
def test_a_source_on_the_hub_is_no_folder(cached, here, name):
    """Not even one of its name, whose edits no start would notice."""
    cached("someone/reviews", {"train": 10})
    shutil.copytree("made", name)
    assert refused(f"hub:{name}@v1").startswith(f"tasks.t.source: 'hub:{name}@v1' is not in the cache")
    assert refused(f"hub:{here}/made").startswith(f"tasks.t.source: 'hub:{here}/made' cannot be load")


def test_a_loading_script_is_not_run(cached):
    folder = Path("some", "set")
    folder.mkdir(parents=True)
    (folder / "set.py").write_text("import os\nos.mkdir('trace')\n")
    (folder / "set.pkl").write_bytes(pickle.dumps(CODE))
    assert refused("hub:some/set@1").startswith("tasks.t.source: 'hub:some/set@1' ")
    assert not Path("trace").exists()


def test_test_sets_may_come_from_another_subset(cached):
    """Their class indices of -1 are not read."""
    cached("someone/sets", {"main/train": 6, "main/validation": 4, "main/test": 3, "other/test": 2})
    task = Task(source="hub:someone/sets", subset="main", test={"CoLA": "test", "WNLI": "other/test"})
    train = prepare.prepare("t", task, 0).train
    for file, (split, n) in {"CoLA": ("main/test", 3), "WNLI": ("other/test", 2)}.items():
        frame, counts = splits.read_unlabelled("t", task, file, train)
        assert frame["text_a"].tolist() == [f"{split} {i}" for i in range(n)]
        assert counts == {"rows": n, "in_train": 0}
    wrong = task.model_copy(update={"test": {"CoLA": "other/tets"}})
    with pytest.raises(DataError, match=r"tasks.t.test.CoLA: no split 'other/tets' .* it has test\."):
        splits.read_unlabelled("t", wrong, "CoLA", train)
    unlabelled = task.model_copy(update={"further": {"t-other": "test"}})
    with pytest.raises(DataError, match="3 of 3 rows of .* have no label"):
        prepare.prepare("t", unlabelled, 0)
