"""Damage to every kind of file that the workflow reads back: always noticed, never used."""

import json
import shutil
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

from headspec import tables
from headspec.errors import DamageError, StorageError
from headspec.models.multitask import MultiTask
from headspec.provenance import files, hashes
from headspec.training import checkpoint
from headspec.training.checkpoint import Checkpoint
from support import tiny
from support.schemas import SCHEMAS

TRIES = 60  # of each kind of file, damaged in turn in each of the ways below
Damage = Callable[[bytes, np.random.Generator], bytes]


def table(path: Path, seed: int) -> Callable[[], object]:
    rows = np.random.default_rng(seed).normal(size=300)
    frame = pd.DataFrame({"task": "a", "fold": 0, "layer": 0, "head": range(300), "importance": rows,
                          "n": 5, "fisher": rows**2})  # fmt: skip
    job = {"output": [str(path)]}
    tables.write(path, SCHEMAS["importance"], frame, {"seed": seed, "classes": ["a", "b"], "job": job})
    return partial(tables.read, path)


def footer(path: Path, seed: int) -> Callable[[], object]:
    table(path, seed)
    return partial(tables.footer, path)


def model_file(path: Path, seed: int) -> Callable[[], object]:
    encoder = tiny.encoder("bert", seed, hidden_dropout_prob=0.1 * (1 + seed))
    MultiTask(encoder, "first", {"a": ["x", "y"], "b": None}).save(path.parent)
    return partial(MultiTask.load, path.parent)


def state(path: Path, seed: int) -> Callable[[], object]:
    weights = tiny.encoder("bert", seed).state_dict()
    Checkpoint(path, "of a run", 0).save({"model": weights, "history": [seed]})
    return partial(checkpoint.read, path)


KINDS: dict[str, Callable[[Path, int], Callable[[], object]]] = {
    "t.parquet": table,
    "footer.parquet": footer,
    "model.safetensors": model_file,
    "config.json": model_file,
    "classifiers.json": model_file,
    "state.pt": state,
}


def flipped(data: bytes, rng: np.random.Generator) -> bytes:
    changed = bytearray(data)
    changed[rng.integers(len(data))] ^= 1 << rng.integers(8)
    return bytes(changed)


def cut(data: bytes, rng: np.random.Generator) -> bytes:
    return data[: rng.integers(len(data))]


def overwritten(data: bytes, rng: np.random.Generator) -> bytes:
    """A block of zeros, as after a crash of the machine."""
    start = rng.integers(len(data))
    block = data[start : start + 512]
    return data[:start] + bytes(len(block)) + data[start + 512 :] if any(block) else flipped(data, rng)


def lengthened(data: bytes, rng: np.random.Generator) -> bytes:
    return data + bytes(rng.integers(1, 100))


DAMAGE: list[Damage] = [flipped, flipped, cut, overwritten, lengthened]


def damaged(path: Path) -> Iterator[str]:
    """Damage a file again and again: what was done to it."""
    data, rng = path.read_bytes(), np.random.default_rng(0)
    for number in range(TRIES):
        damage = DAMAGE[number % len(DAMAGE)]
        path.write_bytes(damage(data, rng))
        yield f"{number} {damage.__name__}"
    path.write_bytes(b"")
    yield "emptied"
    path.write_bytes(data)


@pytest.mark.parametrize("name", KINDS)
def test_damage_at_random_places_is_noticed_and_named(tmp_path, name):
    path = tmp_path / "run" / name
    read = KINDS[name](path, 0)
    read()
    for damage in damaged(path):
        with pytest.raises(DamageError, match="Delete .* and start snakemake again") as caught:
            read()
        assert str(caught.value).startswith(f"{path}: damaged"), damage
    read()


def test_training_starts_again_if_its_checkpoint_is_damaged(tmp_path, caplog):
    path = tmp_path / "checkpoint.pt"
    state(path, 0)
    unfinished = Checkpoint(path, "of a run", 0)
    assert unfinished.load()["history"] == [0]
    for damage in damaged(path):
        caplog.clear()
        assert unfinished.load() is None, damage
        assert f"{path}: damaged" in caplog.text


@pytest.mark.parametrize("name", KINDS)
def test_a_file_of_another_run_is_noticed(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    here, other = (Path("results", "mine", run, name) for run in ("seed0", "seed1"))
    read = KINDS[name](here, 0)
    KINDS[name](other, 1)
    assert here.read_bytes() != other.read_bytes()
    shutil.copy(other, here)
    with pytest.raises(DamageError, match=str(here.parent)):
        read()
    shutil.copytree(other.parent, here.parent, dirs_exist_ok=True)  # files that fit one another
    with pytest.raises(DamageError, match="a copy of results/mine/seed1"):
        read()


def test_results_in_a_renamed_folder_can_be_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("t.parquet", "model.safetensors"):
        KINDS[name](Path("results/mine/run", name), 0)
    for old, new in {"results/mine": "results/yours", "results": "kept"}.items():
        Path(old).rename(new)
        (run,) = Path(new).rglob("run")
        assert len(tables.read(run / "t.parquet")) == 300
        MultiTask.load(run)


def test_a_remembered_hash_that_is_damaged_is_computed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("weights").write_bytes(b"weights")
    monkeypatch.setattr(hashes, "RECENT", 0)
    expected = hashes.sha256("weights")
    hashes.SHA256.save()
    (seen,) = hashes.FOLDER.iterdir()
    data = seen.read_bytes()
    for damage in damaged(seen):
        hashes.SHA256.clear()
        assert hashes.sha256("weights") == expected, damage
        hashes.SHA256.save()
        assert seen.read_bytes() == data


def test_other_programs_read_a_table_but_what_they_write_is_refused(tmp_path):
    """The digest is not a part of the content."""
    path = tmp_path / "t.parquet"
    read = table(path, 0)
    stored = pd.read_parquet(path)
    assert set(stored.pop("attention")) == {"self"}
    pd.testing.assert_frame_equal(stored, read())
    pq.write_table(pq.read_table(path), path)
    with pytest.raises(DamageError, match="cut off or written by an older headspec"):
        read()
    model_file(tmp_path / "config.json", 0)
    assert "headspec" not in json.loads((tmp_path / "config.json").read_text())


def test_temporary_files_of_processes_that_ended_are_removed_and_no_others(tmp_path):
    numbers = ["backup", "1.2", "", "²", "9" * 30]  # no process has the last one
    paths = [tmp_path / f".x.parquet.{number}.tmp" for number in numbers]
    for path in paths:
        path.touch()
    with files.atomic(tmp_path / "x.parquet") as temporary:
        temporary.write_text("new")
    assert (tmp_path / "x.parquet").read_text() == "new"
    assert [path.exists() for path in paths] == [True] * 4 + [False]


def test_links_that_lead_to_themselves(tmp_path):
    (tmp_path / "a" / "b").mkdir(parents=True)
    links = {"a/loop": "loop", "a/b/there": "../back", "a/back": "b/there", "whole": "a", "gone": "nowhere"}
    for name, target in links.items():
        (tmp_path / name).symlink_to(target)
    found = {str(path.relative_to(tmp_path)) for path in files.loops(tmp_path)}
    assert found == {"a/loop", "a/b/there", "a/back"}
    assert files.loops(tmp_path / "a/loop") == [tmp_path / "a/loop"]
    assert files.loops(tmp_path / "missing") == []


def test_errors_of_the_disk_are_told_apart_from_others(tmp_path):
    full = pytest.raises(StorageError, match="x: the disk is full .* Free some space and start")
    with full, files.atomic(tmp_path / "x"):
        raise OSError(28, "No space left on device")
    with pytest.raises(FileNotFoundError), files.atomic(tmp_path / "x"):
        Path("missing").read_text()
    hidden = RuntimeError("unexpected pos 704 vs 598")  # as torch.save has it
    hidden.__context__ = OSError(30, "Read-only file system")
    assert "y: the disk is read-only" in str(files.storage_error(hidden, "y"))
    assert files.storage_error(ValueError("no")) is None


def test_values_that_another_version_saved_in_another_form_are_computed_again(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "x").write_text("x")
    saved = tmp_path / hashes.FOLDER / "values.json"
    saved.parent.mkdir(parents=True)
    entries = {str(tmp_path / "x"): [hashes.stat_key("x"), "old", False]}
    saved.write_text(json.dumps({"by": "", "entries": entries, "sha256": files.PLACEHOLDER}))
    files.embed_sha256(saved)
    assert hashes.FileCache("values.json").get("x", lambda path: "new") == "new"


def test_what_a_process_has_computed_of_a_file_holds_in_every_working_folder(tmp_path, monkeypatch):
    monkeypatch.setattr(hashes, "RECENT", 0)
    (tmp_path / "x").write_text("x")
    cache, computed = hashes.FileCache("values.json"), []
    for folder in ["a", "b"]:
        (tmp_path / folder).mkdir()
        monkeypatch.chdir(tmp_path / folder)
        cache.get("../x", computed.append)
        cache.save()
        assert (hashes.FOLDER / "values.json").exists()
    assert len(computed) == 1
