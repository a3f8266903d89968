"""One version of every package: requirements, pyproject.toml and envs/*.yaml in step."""

from __future__ import annotations

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from headspec.sources import LIBRARY, closure

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVS = sorted((ROOT / "envs").glob("*.yaml"))
#: import name: distribution, where they differ
DISTRIBUTIONS = {"yaml": "pyyaml", "pydantic_core": "pydantic", "sklearn": "scikit-learn", "snakemake": ""}


def pins(lines: list[str]) -> dict[str, str]:
    """Package: its version, of lines ``package==version``."""
    found = {}
    for line in lines:
        requirement = line.split("#")[0].strip()
        if requirement:
            name, version = requirement.split("==")
            assert canonicalize_name(name) not in found, name
            found[canonicalize_name(name)] = version
    return found


def locked(name: str) -> dict[str, str]:
    return pins((ROOT / name).read_text().splitlines())


def environment(path: Path) -> dict[str, str]:
    (packages,) = [d["pip"] for d in yaml.safe_load(path.read_text())["dependencies"] if isinstance(d, dict)]
    return pins(packages)


EXTRAS = PROJECT["optional-dependencies"]
LISTS = [
    ("requirements.txt", PROJECT["dependencies"]),
    ("requirements-demo.txt", EXTRAS["demo"]),
    ("requirements-models.txt", EXTRAS["models"]),
    ("requirements-test.txt", EXTRAS["test"] + EXTRAS["onnx"]),
]


@pytest.mark.parametrize(("name", "wanted"), LISTS, ids=[name for name, _ in LISTS])
def test_every_direct_dependency_is_locked_to_a_version_it_allows(name, wanted):
    versions = locked(name)
    for requirement in map(Requirement, wanted):
        version = versions.get(canonicalize_name(requirement.name))
        assert version and requirement.specifier.contains(version), requirement


def test_lists_do_not_lock_a_package_twice():
    names = [package for name, _ in LISTS for package in locked(name)]
    assert len(names) == len(set(names))


def test_every_dependency_has_its_reason():
    text = (ROOT / "pyproject.toml").read_text()
    wanted = sum((list(w) for _, w in LISTS), [])
    for requirement in wanted:
        assert re.search(rf'^ *"{re.escape(requirement)}", +# \w', text, re.MULTILINE), requirement


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.name)
def test_environments_have_the_locked_versions(path):
    versions = locked("requirements.txt")
    for name, version in environment(path).items():
        assert versions[name] == version, name


def imported(script: Path) -> set[str]:
    """Distributions that a script and the modules it reaches import, at whatever place."""
    names = set()
    for file in closure(script):
        for node in ast.walk(ast.parse((LIBRARY.parent / file).read_text())):
            if isinstance(node, ast.Import):
                names |= {alias.name.split(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom):
                names.add((node.module or "").split(".")[0])
    names -= {"headspec", *sys.stdlib_module_names}
    return {canonicalize_name(DISTRIBUTIONS.get(name, name)) for name in names} - {""}


def stages() -> list[tuple[str, Path, Path]]:
    """(rule, environment, script) of every rule."""
    found = []
    for path in sorted((ROOT / "workflow" / "rules").glob("*.smk")):
        for block in re.split(r"^rule ", path.read_text(), flags=re.MULTILINE)[1:]:
            env, script = re.search(r'"\.\./\.\./(envs/.+)"', block), re.search(r'"\.\./(scripts/.+)"', block)
            found.append((block.split(":")[0], ROOT / env[1], ROOT / "workflow" / script[1]))
    return found


@pytest.mark.parametrize(("rule", "env", "script"), stages(), ids=[stage[0] for stage in stages()])
def test_the_environment_of_a_stage_has_what_its_code_imports(rule, env, script):
    wanted = imported(script)
    if rule not in ("validation", "data"):
        wanted -= {"datasets"}  # imported where hub data is read, and nowhere else
    assert wanted and wanted <= set(environment(env))


def test_every_environment_and_script_is_used():
    assert {env for _, env, _ in stages()} == set(ENVS)
    assert {script for _, _, script in stages()} == set((ROOT / "workflow" / "scripts").glob("*.py"))
