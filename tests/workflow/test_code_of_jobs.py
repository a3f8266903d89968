"""A job's hash covers what the job does: every function that it calls, and every module that it loads."""

import ast
import json
import os
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from headspec.provenance import code_hash, definitions
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


@cache
def at_lines(path: str) -> list[tuple[int, int, list[str]]]:
    """The first and last line of each definition of a file, and its names."""
    found = []
    for node in ast.parse(Path(path).read_text()).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        names = definitions.names(node) or [definitions.EFFECTS]
        found.append((first, node.end_lineno or node.lineno, names))
    return found


#: the folder of a study, and roots of jobs
Jobs = tuple[Path, tuple[str, ...]]


def called(folder: Path) -> dict[Jobs, set[code_hash.Node]]:
    """The definitions that jobs with these roots called."""
    found: dict[Jobs, set[code_hash.Node]] = {}
    for file in folder.iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        roots = next((tuple(line[1:]) for line in lines if line[0] == "roots"), None)
        if roots is None:  # snakemake itself, and helpers of a job
            continue
        calls = [(path, at) for path, at, _ in (line for line in lines if line[0] != "roots")]
        (study,) = {
            path.partition("/workflow/headspec/")[0] for path, _ in calls if "/workflow/headspec/" in path
        }
        nodes = found.setdefault((Path(study), roots), set())
        for path, at in calls:
            names = next(names for first, last, names in at_lines(path) if first <= at <= last)
            nodes.update(code_hash.Node(path, name) for name in names)
    return found


def test_every_function_that_a_job_calls_is_in_its_hash(tmp_path, monkeypatch):
    """Of the library and of plugins. An edit of a function that is not would leave results as they are."""
    folder = tmp_path / "called"
    folder.mkdir()
    tests = [str(ROOT / "tests" / "workflow" / name) for name in TESTS]
    command = [sys.executable, "-m", "pytest", "-m", "slow", "--basetemp", str(tmp_path / "studies"), *tests]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"CALLED": str(folder)}, check=True)
    jobs = called(folder)
    assert {root for _, roots in jobs for root in roots} >= SCRIPTS
    for (study, roots), nodes in jobs.items():
        monkeypatch.chdir(study)  # whose modules plugins import
        monkeypatch.setattr(code_hash, "LIBRARY", study / "workflow" / "headspec")
        graph = code_hash.current()
        reached = frozenset[code_hash.Node]().union(
            *(graph.reached(code_hash.node_of(root)) for root in roots)
        )
        # imports ask the package for modules as if they were its names
        asked = code_hash.Node(str(code_hash.LIBRARY / "__init__.py"), "__getattr__")
        assert not nodes - reached - {asked}, (study, roots)
