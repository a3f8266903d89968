"""Copies of studies whose files all count as large: hashes go with them, and edits reach what they reach."""

import json
import shutil
import subprocess
import tempfile
from pathlib import Path

import pytest

from headspec.provenance import hashes
from support.needs import MEMORY
from support.running.studies import Folder

pytestmark = pytest.mark.slow

COPIES = {
    "cp -r": 'cp -r "$0" "$1"',
    "cp -a": 'cp -a "$0" "$1"',
    "tar": 'mkdir "$1" && tar -c -C "$0" . | tar -x -C "$1"',
    "rsync -t": 'rsync -rt "$0/" "$1"',
}
copies = pytest.mark.parametrize(
    "command",
    [
        pytest.param(command, id=name, marks=[pytest.mark.needs("rsync")] * name.startswith("rsync"))
        for name, command in COPIES.items()
    ],
)


@pytest.fixture(scope="module")
def edited(all_large, tmp_path_factory) -> set[str]:
    """Rules that an edit reaches in the original."""
    study = all_large.copy(tmp_path_factory.mktemp("edited") / "study")
    study.set("pruning.fraction", 0.25)
    rules = {*study.plan().rules}
    assert {"prune", "reliability"} <= rules and not rules & {"train", "importance"}
    return rules


@copies
def test_a_copy_reruns_what_an_edit_reaches(all_large, edited, tmp_path, command):
    """As often as it is planned: of the folder in another place, and then of results under another name."""
    original, study = all_large.copy(tmp_path / "study"), Folder(tmp_path / "copied")
    subprocess.run(["sh", "-c", command, original.path, study.path], check=True)
    shutil.rmtree(original.path)
    for _ in range(2):
        assert study.plan().rules == {}
    before = study.config
    study.set("pruning.fraction", 0.25)
    assert {*study.plan().rules} == edited
    study.write(before | {"study": "vary"})
    subprocess.run(["sh", "-c", command, study.results, study.results.with_name("vary")], check=True)
    for _ in range(2):
        assert study.plan().rules == {}
    study.set("pruning.fraction", 0.25)
    for _ in range(2):
        assert {*study.plan().rules} == edited


@pytest.mark.needs("another file system")
@pytest.mark.parametrize("command", ["cp -r", "cp -a"])
def test_a_copy_on_another_file_system_reruns_what_an_edit_reaches(all_large, edited, command):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        study = Folder(Path(folder, "study"))
        subprocess.run([*command.split(), all_large.path, study.path], check=True)
        assert study.plan().rules == {}
        study.set("pruning.fraction", 0.25)
        for _ in range(2):
            assert {*study.plan().rules} == edited


def test_jobs_hand_on_the_hashes_of_large_files(all_large, tmp_path):
    """So that the next start does not read them."""
    study = all_large.copy(tmp_path / "study", "results", ".snakemake")
    study.snakemake()
    known = json.loads((study.path / hashes.FOLDER / "sha256.json").read_text())["entries"]
    made = {str(path) for path in study.results.rglob("*") if path.suffix in (".parquet", ".safetensors")}
    assert len(made) > 20 and made <= set(known)
    assert all(hashes.stat_key(path)[:2] == known[path][0][:2] for path in made)
