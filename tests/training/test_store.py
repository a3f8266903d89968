"""The store of trained runs: addresses, damage, disks, and jobs that use it at the same time."""

import logging
import multiprocessing
import os
import shutil
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headspec import tables
from headspec.errors import MissingError, StorageError
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.models.tokenization import TOKENS
from headspec.provenance import files
from headspec.training import checkpoint, store
from headspec.training.checkpoint import Checkpoint
from headspec.training.loop import TRAINING
from support import tiny

CLASSES = {"a": ["x", "y"], "b": None}
SETTINGS = {"tasks": ["a", "b"], "training": {"learning_rate": 1e-3, "epochs": 3}, "origin": None,
            "reserve": None, "code": {"loop.py": "0123"}}  # fmt: skip
HISTORY = pd.DataFrame({
    "step": [0, 1], "epoch": 0, "task": ["a", "b"], "loss": [0.7, 0.6], "learning_rate": 1e-3,
    "examples_per_second": 9.0, "memory_mb": 1.0,
})  # fmt: skip


def model(seed: int = 0, classes: dict = CLASSES, pooling: str = "first", **config: object) -> MultiTask:
    return MultiTask(tiny.encoder("bert", seed, **config), pooling, classes)


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch) -> None:
    """A working folder with a store."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "store").mkdir()
    monkeypatch.setenv(store.VARIABLE, "store")


# --- addresses


def tokens(path: str, study: str = "mine", token: int = 5, label: float = 1.0, size: int = 70_000) -> str:
    """A table 'tokens' of `study`, its last row with `token` and `label`; longer than one batch of rows."""
    columns = dict.fromkeys(TOKENS.columns) | {
        "example": range(size), "label": [0.0] * (size - 1) + [label],
        "input_ids": [[1, 2]] * (size - 1) + [[1, token]],
    }  # fmt: skip
    tables.write(path, TOKENS, pd.DataFrame(columns), {"study": study})
    return path


def address(
    *paths: str, net: MultiTask | None = None, seed=0, precision=None, microbatches=1, **settings
) -> Path:
    job = SimpleNamespace(
        device=Device("cpu", precision), seed=seed, microbatches=microbatches, gpus=0, snakemake=None
    )
    path = store.entry(job, net or model(), paths or [tokens("t")], **(SETTINGS | settings)).path
    assert path is not None
    return path


def test_the_study_is_no_part_of_the_address():
    other = tokens("other.parquet", "other")
    assert Path(other).read_bytes() != Path(tokens("mine.parquet")).read_bytes()
    assert address("mine.parquet") == address(other) == address()


def test_the_folder_that_the_model_was_loaded_from_is_no_part_of_the_address():
    net = model()
    net.encoder.config.name_or_path = "elsewhere"
    assert address(net=net) == address()


@pytest.mark.slow
def test_everything_that_a_training_depends_on_is(monkeypatch):
    net = model()
    with torch.no_grad():
        net.classifiers[1].bias[0] += 1e-7
    found = {
        "as it is": address(),
        "seed": address(seed=1),
        "precision": address(precision="bfloat16"),
        "microbatches": address(microbatches=2),
        "a token of the last row": address(tokens("t", token=6)),
        "a label of the last row": address(tokens("t", label=2.0)),
        "a row less": address(tokens("t", size=69_999)),
        "a table more": address(tokens("t"), tokens("u")),
        "weights": address(net=model(1)),
        "a weight of a classifier": address(net=net),
        "dropout": address(net=model(hidden_dropout_prob=0.2)),
        "pooling": address(net=model(pooling="mean")),
        "names of classes": address(net=model(classes=CLASSES | {"a": ["x", "z"]})),
        "learning rate": address(training={"learning_rate": 2e-3, "epochs": 3}),
        "tasks": address(tasks=["b", "a"]),
        "the branch": address(reserve=0.3),
        "the encoder's place": address(origin={"source": "m"}),
        "code": address(code={"loop.py": "4567"}),
    }
    threads = torch.get_num_threads()
    torch.set_num_threads(threads + 1)
    found["threads"] = address()
    torch.set_num_threads(threads)
    with monkeypatch.context() as patch:
        patch.setattr(torch.cpu, "get_capabilities", lambda: {"cpu_name": "another"})
        found["processor"] = address()
    monkeypatch.setattr(tables, "versions", lambda: {"torch": "9"})
    found["versions"] = address()
    assert len(set(found.values())) == len(found), found


@pytest.mark.parametrize("value", ["", None])
def test_without_a_store_nothing_is_looked_up(monkeypatch, value):
    monkeypatch.delenv(store.VARIABLE)
    if value is not None:
        monkeypatch.setenv(store.VARIABLE, value)
    none = store.entry(SimpleNamespace(), model(), ["not a table"])
    assert none.path is None and take(none, "other") is None
    none.put(["not a file"])


def test_a_store_that_is_not_there_is_named(monkeypatch):
    monkeypatch.setenv(store.VARIABLE, "stores")
    with pytest.raises(MissingError, match="HEADSPEC_STORE: no folder 'stores' here; .*mkdir -p stores"):
        store.check()


# --- entries


def run(study: str) -> list[str]:
    """Files of a finished run, as paths of its job."""
    folder = Path("results", study, "run")
    model().save(folder / "model")
    job = {"output": [str(folder / "training.parquet")]}
    tables.write(folder / "training.parquet", TRAINING, HISTORY, {"study": study, "job": job})
    Checkpoint(folder / "trunk.pt", study, 0).save({"model": model().state_dict(), "history": [1]})
    return [*map(str, [*(folder / "model").iterdir(), folder / "training.parquet", folder / "trunk.pt"])]


def entry(path: str = "store") -> store.Entry:
    return store.Entry(Path(path).resolve(), SETTINGS)


def take(found: store.Entry, study: str) -> pd.DataFrame | None:
    folder = Path("results", study, "run")
    return found.take(folder, Checkpoint(folder / "trunk.pt", study, 0))


def test_a_run_is_taken_as_it_was_put():
    """It is linked, and needs neither the store nor the other study."""
    paths = run("mine")
    assert take(entry(), "other") is None
    entry().put(paths)
    pd.testing.assert_frame_equal(take(entry(), "other"), HISTORY, check_dtype=False)
    weights = [Path("results", study, "run/model/model.safetensors") for study in ("mine", "other")]
    assert weights[0].samefile(weights[1])
    MultiTask.load("results/mine/run/model")  # which is still its own
    shutil.rmtree("results/mine")
    shutil.rmtree("store")
    again = MultiTask.load("results/other/run/model").state_dict()
    assert all(torch.equal(value, again[name]) for name, value in model().state_dict().items())
    state = checkpoint.read("results/other/run/trunk.pt")
    assert (state["fingerprint"], state["folder"], state["history"]) == ("other", "results/other/run", [1])


def test_training_again_leaves_the_other_study_as_it_was():
    entry().put(run("mine"))
    take(entry(), "other")
    before = {p: p.read_bytes() for top in ("store", "results/other") for p in Path(top).rglob("*.*")}
    net = model(1)
    net.save("results/mine/run/model")
    Path("results/mine/run/trunk.pt").unlink()
    Checkpoint(Path("results/mine/run/trunk.pt"), "mine", 0).save({"model": net.state_dict()})
    tables.write("results/mine/run/training.parquet", TRAINING, HISTORY.assign(loss=0.1), {})
    assert {p: p.read_bytes() for p in before} == before


def test_a_file_left_by_a_killed_writer_of_the_same_number_is_not_written_to():
    """Numbers of processes repeat, in containers at once."""
    entry().put(run("mine"))
    weights = entry().path / "model.safetensors"
    before = weights.read_bytes()
    left = Path(f"results/other/run/model/.model.safetensors.{os.getpid()}.tmp")
    left.parent.mkdir(parents=True)
    files.link(weights, left)
    model(1).save(left.parent)
    assert weights.read_bytes() == before and not left.exists()


@pytest.mark.parametrize("name", ["model.safetensors", "config.json", "classifiers.json", "training.parquet",
                                  "trunk.pt", "identity.json"])  # fmt: skip
@pytest.mark.parametrize("kind", ["flipped", "missing", "folder"])
def test_a_damaged_entry_is_dropped_and_filled_again(caplog, name, kind):
    entry().put(run("mine"))
    path = entry().path / name
    data = bytearray(path.read_bytes())
    data[np.random.default_rng(0).integers(len(data))] ^= 1
    path.unlink()
    if kind == "flipped":
        path.write_bytes(data)
    elif kind == "folder":
        path.mkdir()
    with caplog.at_level(logging.WARNING):
        assert take(entry(), "other") is None
    assert "training again, because the store has lost the run: " in caplog.text and str(path) in caplog.text
    assert not entry().path.exists()
    entry().put(run("other"))
    assert take(entry(), "third") is not None


def test_entries_whose_folders_were_exchanged_are_dropped(caplog):
    """Both are complete, and the names of their folders are of trainings that are asked for."""
    first, second = entry(), store.Entry(Path("store").resolve(), SETTINGS | {"reserve": 0.3})
    first.put(run("mine"))
    second.put(run("other"))
    first.path.rename("aside")
    second.path.rename(first.path)
    Path("aside").rename(second.path)
    with caplog.at_level(logging.WARNING):
        assert take(first, "third") is None and take(second, "third") is None
    told = "training again, because the store has lost the run: {}/identity.json: belongs to another"
    assert all(told.format(each.path) in caplog.text for each in (first, second))
    first.put(run("mine"))
    assert take(first, "third") is not None and not second.path.exists()


def test_a_store_on_another_disk_holds_copies(tmp_path):
    shared = Path("/dev/shm", f"headspec-store-{os.getpid()}")
    if not os.access("/dev/shm", os.W_OK) or os.stat("/dev/shm").st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no other file system")
    shared.mkdir()
    try:
        entry(str(shared)).put(run("mine"))
        assert take(entry(str(shared)), "other") is not None
        MultiTask.load("results/other/run/model")
        assert Path("results/other/run/model/model.safetensors").stat().st_nlink == 1
    finally:
        shutil.rmtree(shared)


def test_a_full_disk_leaves_neither_half_an_entry_nor_half_a_run(monkeypatch, caplog):
    def full(path: object, name: object) -> None:
        if str(path).endswith("model.safetensors"):
            raise OSError(28, "No space left on device")
        os.link(str(path), str(name))

    paths = run("mine")
    with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
        patch.setattr(files, "link", full)
        entry().put(paths)
    assert "the run is finished, but not in the store: [Errno 28] No space left on device" in caplog.text
    assert list(Path("store").iterdir()) == []
    MultiTask.load("results/mine/run/model")
    entry().put(paths)
    monkeypatch.setattr(files, "link", full)
    with pytest.raises(StorageError, match="the disk is full"):
        take(entry(), "other")
    assert entry().path.exists() and not Path("results/other/run/model/classifiers.json").exists()


def worker(number: int) -> int:
    """Put and take the same entry again and again, which others put, take and remove."""
    taken, paths = 0, run(f"study{number}")
    for turn in range(30):
        entry().put(paths)
        if take(entry(), f"taker{number}") is not None:
            MultiTask.load(f"results/taker{number}/run/model")
            taken += 1
        if (turn + number) % 7 == 0:
            shutil.rmtree(entry().path, ignore_errors=True)
    return taken


@pytest.mark.slow
def test_jobs_that_use_an_entry_at_the_same_time_see_all_of_it_or_nothing():
    with multiprocessing.get_context("fork").Pool(4) as pool:
        assert min(pool.map(worker, range(4))) > 0
    assert [path.name[0] != "." for path in Path("store").iterdir()] in ([], [True])
