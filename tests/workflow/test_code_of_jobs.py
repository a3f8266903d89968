"""A job's hash covers what the job does: the file of every function that it calls."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from headspec.provenance import code_hash
from support.paths import ROOT

pytestmark = pytest.mark.storm  # every job under a tracer: a quarter of an hour

#: tests whose studies have every script of the workflow between them, and plugins of all sorts
TESTS = (
    "test_atlas.py::test_a_measure_made_from_another_table_is_a_module_and_a_line",  # every stage
    "test_prompts.py::test_the_whole_path_runs_without_training",
    "test_translation.py::test_it_learns_both_languages_from_its_own_vocabulary",
    "shipped/test_worked_examples.py::test_a_kind_of_task_is_learnt",
)
SCRIPTS = {path.relative_to(ROOT / "workflow").as_posix() for path in ROOT.glob("workflow/scripts/*/*.py")}


#: the folder of a study, and roots of jobs
Jobs = tuple[Path, tuple[str, ...]]


def called(folder: Path) -> dict[Jobs, set[str]]:
    """The files whose functions jobs with these roots called."""
    found: dict[Jobs, set[str]] = {}
    for file in folder.iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        roots = next((tuple(line[1:]) for line in lines if line[0] == "roots"), None)
        if roots is None:  # snakemake itself, and helpers of a job
            continue
        paths = {line[0] for line in lines if line[0] != "roots"}
        (study,) = {
            path.partition("/workflow/headspec/")[0] for path in paths if "/workflow/headspec/" in path
        }
        found.setdefault((Path(study), roots), set()).update(paths)
    return found


def test_the_file_of_every_function_that_a_job_calls_is_in_its_hash(tmp_path, monkeypatch):
    """Of the library and of plugins. An edit of a file that is not would leave results as they are."""
    folder = tmp_path / "called"
    folder.mkdir()
    tests = [str(ROOT / "tests" / "workflow" / name) for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--basetemp", str(tmp_path / "studies"), *tests]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"CALLED": str(folder)}, check=True)
    jobs = called(folder)
    assert {root for _, roots in jobs for root in roots} >= SCRIPTS
    for (study, roots), paths in jobs.items():
        monkeypatch.chdir(study)  # whose modules plugins import
        monkeypatch.setattr(code_hash, "LIBRARY", study / "workflow" / "headspec")
        assert not paths - code_hash.files(roots), (study, roots)
