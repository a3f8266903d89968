"""A job's hash covers what the job does: every function that it calls, and every module that it loads."""

import ast
import json
from functools import cache
from pathlib import Path

import pytest

from headspec.provenance import code_hash, definitions
from support.running import every_stage

pytestmark = pytest.mark.storm  # every job under a tracer: ten minutes

#: scripts of stages that the study lacks
NOT_RUN: set[str] = set()


@cache
def at_lines(path: str) -> list[tuple[int, int, list[str]]]:
    """The first and last line of each definition of a file, and its names."""
    found = []
    for node in ast.parse(Path(path).read_text()).body:
        first = min([node.lineno, *(each.lineno for each in getattr(node, "decorator_list", ()))])
        names = definitions._names(node) or [definitions.EFFECTS]
        found.append((first, node.end_lineno or node.lineno, names))
    return found


def called(folder: Path) -> dict[tuple[str, ...], set[code_hash.Node]]:
    """Roots of jobs: the definitions that jobs with these roots called."""
    found: dict[tuple[str, ...], set[code_hash.Node]] = {}
    for file in folder.iterdir():
        lines = [json.loads(line) for line in file.read_text().splitlines()]
        roots = next((tuple(line[1:]) for line in lines if line[0] == "roots"), None)
        if roots is None:  # snakemake itself, and helpers of a job
            continue
        for path, at, _ in (line for line in lines if line[0] != "roots"):
            names = next(names for first, last, names in at_lines(path) if first <= at <= last)
            found.setdefault(roots, set()).update(code_hash.Node(path, name) for name in names)
    return found


def test_every_function_that_a_job_calls_is_in_its_hash(tmp_path, monkeypatch):
    """In a study with every stage. An edit of a function that is not would leave results as they are."""
    study, folder = every_stage.new(tmp_path / "study"), tmp_path / "called"
    folder.mkdir()
    study.snakemake(*every_stage.TARGETS, "explorer", CALLED=str(folder))
    workflow = study.path / "workflow"
    monkeypatch.setattr(code_hash, "LIBRARY", workflow / "headspec")
    jobs = called(folder)
    scripts = {path.relative_to(workflow).as_posix() for path in workflow.glob("scripts/*/*.py")}
    assert scripts - {root for roots in jobs for root in roots} == NOT_RUN
    graph = code_hash.current()
    for roots, nodes in jobs.items():
        reached = frozenset[code_hash.Node]()
        for root in roots:
            reached |= graph.reached(code_hash.node_of(root))
        # imports ask the package for modules as if they were its names
        asked = code_hash.Node(str(workflow / "headspec" / "__init__.py"), "__getattr__")
        assert not nodes - reached - {asked}, roots
