"""The docs match the repository: links, paths, config keys, code, and generated pages.

`make check` builds the site, which checks the links between its pages.
"""

import ast
import importlib
import inspect
import os
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import headspec
from headspec.config import reference
from headspec.config.loading import load, strict_yaml
from headspec.cost import graph
from headspec.data.tasks_read import TasksRead
from headspec.explorer.views import STUDY_TABLES
from headspec.pipeline import outputs
from headspec.pipeline.commands import summary
from headspec.provenance.code_hash import LIBRARY
from headspec.tables import Schema
from support import pages
from support.paths import ROOT
from support.schemas import SCHEMAS
from support.tiers import cases

sys.path.append(str(ROOT / "docs" / "studies"))
functions = importlib.import_module("functions")

README = ROOT / "README.md"
PAGES = pages.PAGES
STUDIES = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "studies").glob("*.yaml"))]
#: folders of which pages name files
FOLDERS = ("workflow", "tests", "profiles", "envs", "docs")


def blocks(page: Path, language: str) -> list[str]:
    """The text of its blocks in a language."""
    return [block.text for block in pages.blocks(page) if block.language == language]


@cache
def jobs(study: Path) -> list[graph.PlannedJob]:
    """Jobs of a study as `headspec plan` counts them."""
    return graph.jobs(load(strict_yaml(study)), TasksRead())


@pytest.mark.parametrize("study", cases(["config.yaml", "workflow/studies/paper.yaml"], "config.yaml".__eq__))
def test_jobs_of_studies_are_counted(study):
    (row,) = re.findall(rf"^\| `{study}` .+", README.read_text(encoding="utf-8"), re.M)
    assert f" {len(jobs(ROOT / study)):,} jobs " in row


def test_the_plan_on_the_page_is_the_demos():
    text = (ROOT / "docs" / "running.md").read_text(encoding="utf-8")
    plan = text.partition("What demo will cost")[2].partition("```")[0]
    counts = {stage: int(n) for stage, n in re.findall(r"^(\w+) +(\d+) ", plan, re.M)}
    made = jobs(ROOT / "config.yaml")
    assert counts.pop("total") == len(made)
    assert counts and counts == {stage: len(graph.by_stage(made)[stage]) for stage in counts}
    assert f"of {len(made) + 1} jobs" in text  # Snakemake counts the target, too


def test_the_readme_has_the_summary_of_the_demo():
    """Its table has the demo's mixtures in the summary's layout, and its first lines count what is in it."""
    (block,) = [b for b in blocks(README, "text") if b.startswith("found")]
    study = load(strict_yaml(ROOT / "config.yaml"))
    number, mixture, rows = r" *(-?[\d.]+)", "", []
    span = rf"{number}(†?) *\[{number},{number}\]"
    for line in block[block.index("mixture ") :].splitlines()[1:]:
        found = re.fullmatch(rf"(\S*) +(tuned|frozen){span}{number} +(\w+){span}", line)
        assert found, line
        name, method, d, mark, low, high, p, case, area, _, area_low, area_high = found.groups()
        mixture = name or mixture
        values = (float(text) / 100 for text in (d, low, high, area, area_low, area_high))
        rows.append([mixture, method, bool(mark), float(p), case, *values])
    columns = ["mixture", "method", "at_chance", "p_holm", "case", "dissociation", "ci_low", "ci_high"]
    combined = pd.DataFrame(rows, columns=[*columns, "area", "area_low", "area_high"]).assign(
        model=next(iter(study.models)), task="mean", n_seeds=len(study.seeds),
        fraction=study.pruning.fraction, ci_over="examples", p_seeds_holm=np.nan,
    )  # fmt: skip
    combined["distinct"], combined["unpruned_at_chance"] = (
        combined["case"] == case for case in ("distinct", "chance")
    )
    assert set(combined["mixture"]) == set(study.mixture_tasks)
    areas = combined.drop(columns=["ci_low", "ci_high"])
    areas = areas.rename(columns={"area_low": "ci_low", "area_high": "ci_high"})
    fractions = pd.DataFrame({"fraction": study.pruning.fractions})
    printed = summary.text(combined, ROOT, fractions=fractions, areas=areas).splitlines()
    shown = [line for line in block.splitlines() if "r of D" not in line and "mean D of" not in line]
    assert printed[: len(shown)] == shown


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "workflow/studies/README.md"])
def test_relative_links_lead_somewhere(page):
    folder = (ROOT / page).parent
    for target in re.findall(r"\]\((?!https?:)([^)]+)\)", (ROOT / page).read_text(encoding="utf-8")):
        path, _, anchor = target.partition("#")
        assert (folder / path).exists(), target
        headings = (
            re.findall(r"^#+ (.+)", (folder / path).read_text(encoding="utf-8"), re.M) if anchor else []
        )
        assert not anchor or anchor in {re.sub(r"[^\w -]", "", h).lower().replace(" ", "-") for h in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_files_and_code_that_pages_name_are_there(page):
    """Code is named as: `a`, `b` and `c.d` in `workflow/...py`."""
    named = re.findall(rf"`((?:{'|'.join(FOLDERS)})/[\w./-]+)`", page.read_text(encoding="utf-8"))
    assert [path for path in named if not (ROOT / path).exists()] == []
    listed = r"((?:`[\w.]+`(?:,? and |, )?)+) in `([\w/.-]+\.(?:py|smk))`"
    for names, path in re.findall(listed, page.read_text(encoding="utf-8")):
        code = (ROOT / path).read_text(encoding="utf-8") if (ROOT / path).exists() else ""
        missing = [n for n in re.findall(r"`([\w.]+)`", names) if n.split(".")[-1] not in code]
        assert missing == [], path


def test_modules_that_are_run_by_name_do_something():
    """`python -m headspec.<module>` in code, the Makefile and pages."""
    named: dict[str, Path] = {}
    for path in [*LIBRARY.rglob("*.py"), ROOT / "Makefile", *PAGES]:
        found = re.findall(r"-m[\s\"',]+(headspec(?:\.\w+)+)", path.read_text(encoding="utf-8"))
        named |= dict.fromkeys(found, path)
    assert "headspec.cost.graph" in named
    for name, path in named.items():
        module = LIBRARY.parent.joinpath(*name.split(".")).with_suffix(".py")
        assert '\nif __name__ == "__main__":\n' in module.read_text(encoding="utf-8"), (name, path)


def unknown(node: reference.Node, value: Any, path: str = "") -> list[str]:
    """Dotted keys in `value` that the config does not have where they stand."""
    if not isinstance(value, dict) or node.get("additionalProperties") is True:
        return []
    found = []
    for key, inner in value.items():
        entry = reference.child(node, key)
        found += unknown(entry, inner, f"{path}{key}.") if entry else [f"{path}{key}"]
    return found


def test_configs_on_pages_are_configs():
    wrong = {"iat": {"alfa": 1}, "tasks": {"a": {"txt": "b"}}}
    assert unknown(reference.schema(), wrong) == ["iat.alfa", "tasks.a.txt"]
    for page in PAGES:
        for block in blocks(page, "yaml"):
            config = yaml.safe_load(block)
            assert unknown(reference.schema(), config) == [], page.name
            if "study" in config:
                load(config)


@pytest.mark.slow
def test_the_site_opens_from_disk_with_its_search(tmp_path):
    """Nothing is fetched, and the index is a script, since browsers read no other files from disk."""
    command = [sys.executable, "-m", "mkdocs", "build", "--quiet", "--site-dir", str(tmp_path)]
    subprocess.run(command, cwd=ROOT, env=os.environ | {"NO_MKDOCS_2_WARNING": "1"}, check=True)
    assert (tmp_path / "search" / "search_index.js").exists()
    for page in tmp_path.rglob("*.html"):
        text = page.read_text(encoding="utf-8")
        text = re.sub(r'<link rel="canonical"[^>]*>', "", text)  # an address, which nothing loads
        loaded = re.findall(r'<(?:script|img)[^>]* src="([^"]+)"|<link[^>]* href="([^"]+)"', text)
        assert loaded and [url for url in map("".join, loaded) if "//" in url] == []
        assert "iframe-worker" in text or page.parent.name == "explorers"
    explored = {page.stem for page in tmp_path.glob("explorers/*.html")}
    assert explored == {
        path.parents[1].name for path in ROOT.glob("docs/studies/*/tables/*") if path.stem in STUDY_TABLES
    }
    linked = (tmp_path / "outputs.html").read_text(encoding="utf-8")
    assert all(f'href="explorers/{name}.html"' in linked for name in explored)


@pytest.mark.slow
def test_the_code_of_the_library_page_runs(tmp_path, monkeypatch):
    """A model is loaded, trained, scored and pruned, as the page has it."""
    monkeypatch.chdir(tmp_path)
    code, *_ = blocks(ROOT / "docs/code/library.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["importances"]["topic"].shape == (6, 12)
    assert set(names["accuracy"].index) == {"none", *names["classes"]}
    assert (names["accuracy"].loc["none"] > 0.9).all()  # what it trained on
    assert list(tmp_path.iterdir()) == []


def test_the_architecture_page_has_the_packages_by_layer():
    """From `config` on, those of the contract that `lint-imports` compares with the code."""
    page = (ROOT / "docs/code/architecture.md").read_text(encoding="utf-8")
    rows = re.findall(r"^\| (`.+?`) \|", page.partition("## Packages")[2].partition("\n## ")[0], re.M)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    packages = layers[layers.index("live") : layers.index("config") + 1]
    shown = [set(re.findall("`(.+?)`", row)) for row in rows[rows.index("`config`") :]]
    assert shown == [set(names.split(" | ")) for names in reversed(packages)]


def test_terms_on_the_architecture_page_are_names_in_the_code():
    page = (ROOT / "docs/code/architecture.md").read_text(encoding="utf-8")
    section = page.partition("## Terms")[2].partition("\n## ")[0]
    terms = [term for line in section.splitlines() for term in re.findall(r"`(\w+)`", line) if line[0] == "-"]
    code = " ".join(path.read_text() for path in [*LIBRARY.rglob("*.py"), *LIBRARY.parent.rglob("*.smk")])
    words = {*re.findall(r"[a-zA-Z_]+", code)}
    assert terms
    assert {term for term in terms if term not in words} == set()


@pytest.mark.slow
def test_every_schema_of_the_library_is_a_known_table():
    """That of tokens is known with the columns of all kinds of tasks."""
    known = [{*schema.columns.items()} for schema in SCHEMAS.values()]
    for path in LIBRARY.rglob("*.py"):
        if path.stem != "__main__":
            module = path.relative_to(LIBRARY.parent).with_suffix("")
            name = ".".join((module.parent if path.stem == "__init__" else module).parts)
            for value in vars(importlib.import_module(name)).values():
                if isinstance(value, Schema):
                    assert any({*value.columns.items()} <= columns for columns in known), name


def test_every_column_is_described_and_no_other():
    for name, schema in SCHEMAS.items():
        columns = set(schema.stored.columns)
        assert set(schema.about) <= columns, name
        assert columns <= {*outputs.own_columns(schema), *outputs.COLUMNS}, name
    shared = {
        column
        for schema in SCHEMAS.values()
        for column in schema.stored.columns
        if column not in outputs.own_columns(schema)
    }
    assert shared == set(outputs.COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_table_that_a_job_makes_has_its_path(path):
    patterns = [re.sub(r"{\w+}", "[^/]+", path) for name in SCHEMAS for path in outputs.paths(name)]
    made = [each for job in jobs(path) for each in job.outputs]
    tables = [each.split("/", 2)[2] for each in made if each.endswith(".parquet")]
    assert tables and [each for each in tables if not any(re.fullmatch(p, each) for p in patterns)] == []


def test_every_p_has_its_test_hypothesis_and_family():
    """A row of the page's table for each table and column that holds a p, and no cell is empty."""
    page = (ROOT / "docs" / "statistics.md").read_text(encoding="utf-8")
    (head, *rows) = re.search(r"^(\| table \| column \| .*\n(?:\|.*\n)*)", page, re.M).group().splitlines()
    cells = [[cell.strip() for cell in row.strip("|").split(" | ")] for row in rows[1:]]
    assert all(len(row) == head.count(" | ") + 1 and all(row) for row in cells)
    stated = {
        (table, column)
        for tables, columns, *_ in cells
        for table in re.findall(r"`(\w+)`", tables)
        for column in re.findall(r"`(\w+)`", columns)
    }
    held = {
        (name, column)
        for name, schema in SCHEMAS.items()
        for column in schema.columns
        if "p" in column.split("_")
    }
    assert stated == held
    corrected = {table for table, column in stated if column == "p_holm"}
    for tables, columns, *_, family in cells:
        if "`p_value`" in columns and corrected & set(re.findall(r"`(\w+)`", tables)):
            assert "_holm" in columns and family != "none"


@pytest.mark.parametrize(("page", "module"), [("configuration.md", reference), ("outputs.md", outputs)])
def test_generated_pages_are_in_step(page, module):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == module.updated(text), "run: make docs"


@pytest.mark.parametrize("name", headspec.__all__)
def test_the_page_of_functions_describes_every_argument(name):
    """From the signature, in the list of parameters that is made from the docstring."""
    page = "\n".join(functions.described(name))
    described = {*re.findall(r"`(\w+)`", " ".join(re.findall("^- (.+?):", page, re.M)))}
    assert page.startswith(f"## {name}\n\n```python\n{name}(")
    assert {*inspect.signature(getattr(headspec, name)).parameters} <= described


#: packages whose functions compute with arrays
COMPUTING = ("heads", "similarity", "statistics")
SHAPE = re.compile(r"\((?:[\w.\[*`][^=]*,[^=]*|\w+,|\.\.\.)\)|scalar|shape")


@pytest.mark.parametrize(
    "path",
    [path for package in COMPUTING for path in sorted((LIBRARY / package).rglob("*.py"))],
    ids=lambda path: path.relative_to(LIBRARY).as_posix(),
)
def test_functions_of_arrays_name_shapes(path):
    """Public ones: in the docstring, in that of the class, or in a comment at a line."""
    text = path.read_text(encoding="utf-8")
    module = ast.parse(text)
    bare = []
    for owner in [module, *(node for node in module.body if isinstance(node, ast.ClassDef))]:
        about = "" if owner is module else ast.get_docstring(owner) or ""
        for function in owner.body:
            if not isinstance(function, ast.FunctionDef) or function.name.startswith("_"):
                continue
            annotations = [each.annotation for each in (*function.args.args, *function.args.kwonlyargs)]
            types = " ".join(ast.unparse(each) for each in (*annotations, function.returns) if each)
            lines = text.splitlines()[function.lineno - 1 : function.end_lineno]
            said = [about, ast.get_docstring(function) or "", *(line.partition("#")[2] for line in lines)]
            if re.search(r"\b(Tensor|ndarray|NDArray|Floats)\b", types) and not SHAPE.search("\n".join(said)):
                bare.append(f"{function.lineno}: {function.name}")
    assert bare == []
