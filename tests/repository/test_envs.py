"""One version of every package in requirements, pyproject.toml and envs/*.yaml."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from headspec.pipeline.figures.registry import FIGURES
from headspec.provenance import code_hash
from support.paths import ROOT

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
ENVS = sorted((ROOT / "envs").glob("*.yaml"))
DEFINED = ast.FunctionDef | ast.ClassDef
#: import name: distribution, where they differ
DISTRIBUTIONS = {"yaml": "pyyaml", "pydantic_core": "pydantic", "sklearn": "scikit-learn", "snakemake": ""}


def pins(lines: list[str]) -> dict[str, str]:
    """Package: its version, from lines ``package==version``, of those for this system and Python."""
    versions = {}
    for line in lines:
        if text := line.split("#")[0].strip():
            requirement = Requirement(text)
            (pin,) = requirement.specifier
            name = canonicalize_name(requirement.name)
            assert pin.operator == "==", text
            if requirement.marker is None or requirement.marker.evaluate():
                assert name not in versions, text
                versions[name] = pin.version
    return versions


def locked(name: str) -> dict[str, str]:
    return pins((ROOT / name).read_text().splitlines())


def environment(path: Path) -> dict[str, str]:
    (packages,) = [d["pip"] for d in yaml.safe_load(path.read_text())["dependencies"] if isinstance(d, dict)]
    return pins(packages)


EXTRAS = PROJECT["optional-dependencies"]
LISTS = [
    ("requirements.txt", PROJECT["dependencies"] + EXTRAS["study"]),
    ("requirements-demo.txt", EXTRAS["demo"]),
    ("requirements-models.txt", EXTRAS["models"]),
    ("requirements-test.txt", EXTRAS["test"] + EXTRAS["onnx"] + EXTRAS["docs"]),
]


@pytest.mark.parametrize(("name", "wanted"), LISTS, ids=[name for name, _ in LISTS])
def test_every_direct_dependency_has_its_reason_and_is_locked_to_a_version_it_allows(name, wanted):
    versions, text = locked("requirements.txt") | locked(name), (ROOT / "pyproject.toml").read_text()
    for line in wanted:
        requirement = Requirement(line)
        version = versions.get(canonicalize_name(requirement.name))
        assert version and requirement.specifier.contains(version), requirement
        assert re.search(rf'^ *"{re.escape(line)}", +# \w', text, re.MULTILINE), f"{line} has no reason"


def test_packages_are_locked_once_and_what_builds_the_package_too():
    names = [package for name, _ in LISTS for package in locked(name)]
    assert len(names) == len(set(names))
    build = tomllib.loads((ROOT / "pyproject.toml").read_text())["build-system"]["requires"]
    assert set(build) <= set(EXTRAS["test"])  # the tests build it without a network


def test_what_a_torch_with_cuda_brings_is_not_locked():
    """pip takes a CPU build where one is offered."""
    assert not [name for name in locked("requirements.txt") if re.match("cuda-|nvidia-|triton", name)]


@pytest.mark.parametrize("path", ENVS, ids=lambda path: path.name)
def test_environments_have_the_locked_versions(path):
    versions = locked("requirements.txt")
    for name, version in environment(path).items():
        assert versions[name] == version, name


def imported(paths: list[Path]) -> set[str]:
    """Distributions that the files which a script and modules reach import."""
    names = set()
    for file in code_hash.files(paths):
        if file.endswith(".py"):
            names |= {name.split(".")[0] for name in code_hash.current().parsed(file)["imports"]}
    names -= {"headspec", *sys.stdlib_module_names}
    return {canonicalize_name(DISTRIBUTIONS.get(name, name)) for name in names} - {""}


def stages() -> list[tuple[str, Path, list[Path]]]:
    """(rule, environment, script and modules that this imports by name) of every rule.

    A rule that uses another has what it does not override.
    """
    rules = sorted((ROOT / "workflow" / "rules").glob("*.smk"))
    text = "\n".join(path.read_text() for path in rules if path.name != "figures.smk")
    blocks: dict[str, tuple[str | None, str]] = {}
    for block in re.split(r"^ *(?=rule |use rule )", text, flags=re.MULTILINE)[1:]:
        base, rule = re.match(r"(?:rule|use rule (\w+) as) (\w+)", block).groups()
        blocks[rule] = base, block

    def of(rule: str, pattern: str) -> str:
        base, block = blocks[rule]
        found = re.search(pattern, block)
        return found[1] if found else of(base, pattern) if base else ""

    rows = []
    for rule in blocks:
        env = of(rule, r'"\.\./\.\./(envs/.+)"')
        script, *modules = re.findall(r'"([\w/]+\.py)"', of(rule, r"(?s)code=code\((.+?)\),\n"))
        paths = [ROOT / "workflow" / "scripts" / script, *(code_hash.LIBRARY / module for module in modules)]
        rows.append((rule, ROOT / env, paths))
    draw = ROOT / "workflow" / "scripts" / "plots" / "figure.py"
    plots = {code_hash.LIBRARY / "plots" / each.drawn_by.partition(":")[0] for each in FIGURES}
    return [*rows, ("figures", ROOT / "envs" / "figures.yaml", [draw, *sorted(plots)])]


@pytest.mark.parametrize(("rule", "env", "paths"), stages(), ids=[stage[0] for stage in stages()])
def test_the_environment_of_a_stage_has_what_its_code_imports(rule, env, paths):
    wanted = imported(paths)
    # imported in a function that only some stages call
    wanted -= {"datasets"} if rule not in ("validation", "data") else set()
    wanted -= {"torch"} if rule == "voxels" else set()
    assert wanted and wanted <= set(environment(env))


def test_every_environment_and_script_is_used():
    assert {env for _, env, _ in stages()} == set(ENVS)
    assert {paths[0] for _, _, paths in stages()} == set((ROOT / "workflow" / "scripts").rglob("*.py"))
