"""The docs say what is there: links, paths, config keys, code, and pages that are generated.

`make check` builds the site, which checks the links between its pages.
"""

import ast
import importlib
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

from headspec.config import reference
from headspec.config.loading import load, strict_yaml
from headspec.cost import graph
from headspec.data.planned import Planned
from headspec.explorer.views import STUDY_TABLES
from headspec.pipeline import outputs
from headspec.pipeline.commands import summary
from headspec.provenance.code_hash import LIBRARY
from headspec.tables import Schema
from support import pages
from support.paths import ROOT
from support.schemas import SCHEMAS

README = ROOT / "README.md"
PAGES = pages.PAGES
STUDIES = [ROOT / "config.yaml", *sorted((ROOT / "workflow" / "studies").glob("*.yaml"))]
TABLES = outputs.described()
#: folders of which pages name files
FOLDERS = ("workflow", "tests", "profiles", "envs", "docs")


def blocks(page: Path, language: str) -> list[str]:
    """The text of its blocks in a language."""
    return [block.text for block in pages.blocks(page) if block.language == language]


@cache
def jobs(study: Path) -> list[graph.PlannedJob]:
    """Jobs of a study as `headspec plan` counts them."""
    return graph.jobs(load(strict_yaml(study)), Planned())


@pytest.mark.parametrize("study", ["config.yaml", "workflow/studies/paper.yaml"])
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
    code, *_ = blocks(ROOT / "docs" / "architecture.md", "python")
    names: dict[str, Any] = {}
    exec(code, names)
    assert names["importances"]["topic"].shape == (6, 12)
    assert set(names["accuracy"].index) == {"none", *names["classes"]}
    assert (names["accuracy"].loc["none"] > 0.9).all()  # what it trained on
    assert list(tmp_path.iterdir()) == []


def test_the_architecture_page_has_the_layers_packages():
    """Those of the contract that `lint-imports` compares with the code; `root` stands for the lowest."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    (line,) = re.findall(r"^root ← (.+)", page, re.M)
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    (layers,) = [contract["layers"] for contract in contracts if contract["type"] == "layers"]
    packages = layers[layers.index("live") : layers.index("config") + 2]
    interface = " : ".join(f"tasks.{path.stem}" for path in sorted((LIBRARY / "tasks").glob("[!_]*.py")))
    assert packages.pop() == interface
    assert line.split(" ← ") == ["tasks", *(names.replace(" |", ",") for names in reversed(packages))]


def private_names(path: Path) -> set[str]:
    """Private attributes and modules that a module reads or sets and does not define, also by `getattr`."""
    nodes = [*ast.walk(ast.parse(path.read_text(encoding="utf-8")))]
    ours, used = {"_asdict", "_fields", "_replace", "_exit", "_getframe"}, set()  # public in Python's docs
    for node in nodes:
        texts: list[ast.expr | None] = []
        match node:
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name) | ast.Name(id=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(value=ast.Name(id="self" | "cls"), attr=name, ctx=ast.Store()):
                ours.add(name)
            case ast.Attribute(attr=name):
                used.add(name)
            case ast.Import(names=names):
                used.update(part for each in names for part in each.name.split("."))
            case ast.ImportFrom(names=names, module=module):
                used |= {*(module or "").split("."), *(each.name for each in names)}
            case ast.Call(func=ast.Name(id="getattr" | "hasattr" | "setattr"), args=[_, text, *_]):
                texts = [text]
            case ast.Call(func=ast.Attribute(attr="get" | "pop" | "setdefault"), args=[text, *_]):
                texts = [text]
            case ast.Subscript(slice=text) | ast.Assign(value=text):
                texts = [text]
        used |= {str(text.value) for text in texts if isinstance(text, ast.Constant)}
    return {name for name in used - ours if re.fullmatch("_[^_].*", name)}


def test_the_architecture_page_has_every_private_name_of_other_packages():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    _, _, section = page.partition("\n## Private names of other packages\n")
    rows = [line.split(" | ")[1] for line in section.splitlines() if line.startswith("| ") and "`" in line]
    named = [name.rpartition(".")[2] for row in rows for name in re.findall("`(.*?)`", row)]
    assert sorted(named) == sorted(set().union(*map(private_names, LIBRARY.parent.rglob("*.py"))))


def defines(path: Path, name: str) -> bool:
    """Return whether a file has a rule, or a definition, perhaps in a class, with this name."""
    text = path.read_text(encoding="utf-8")
    if path.suffix != ".py":
        return f"\nrule {name}:" in text
    body: list[ast.stmt] = ast.parse(text).body
    for part in name.split("."):
        names = [getattr(each, "name", None) or ast.unparse(getattr(each, "target", each)) for each in body]
        named = dict(zip(names, body, strict=True))
        if part not in named:
            return False
        body = getattr(named[part], "body", [])
    return True


def test_the_ways_from_keys_to_code_are_there():
    """From the key of a section on, each step is named by another file on the way."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("## From key to code")[2].partition("\n## ")[0]
    rows = [re.findall("`(.+?)`", line) for line in section.splitlines() if line.startswith("| `")]
    assert rows
    for key, *way in rows:
        steps = []
        for file, _, name in (step.partition(": ") for step in way):
            path = next((p for p in (ROOT / "workflow" / file, LIBRARY / file) if p.exists()), None)
            assert path, (key, file)
            assert not name or defines(path, name), (key, file, name)
            steps.append((path, name or file))
        assert re.findall(r"\w+", steps[0][1])[-1] in re.findall(r"\w+", key), key
        for path, name in steps[1:]:
            others = [other.read_text(encoding="utf-8") for other, _ in steps if other != path]
            assert any(re.search(rf"\b{name.split('.')[0]}\b", text) for text in others), (key, name)


def test_terms_on_the_architecture_page_are_names_in_the_code():
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
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


def test_every_table_is_described_and_no_other():
    assert set(TABLES) == set(SCHEMAS)
    for name, table in TABLES.items():
        columns = set(SCHEMAS[name].stored.columns)
        assert set(table.columns) <= columns, name
        assert columns <= {*outputs.own_columns(table), *outputs.COLUMNS}, name
    shared = {
        column
        for name, table in TABLES.items()
        for column in SCHEMAS[name].stored.columns
        if column not in outputs.own_columns(table)
    }
    assert shared == set(outputs.COLUMNS)


@pytest.mark.slow
@pytest.mark.parametrize("path", STUDIES, ids=lambda path: path.stem)
def test_every_table_that_a_job_makes_has_its_path(path):
    patterns = [re.sub(r"{\w+}", "[^/]+", path) for table in TABLES.values() for path in table.paths]
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
        if corrected & set(re.findall(r"`(\w+)`", tables)):
            assert "_holm" in columns and family != "none"


@pytest.mark.parametrize(("page", "module"), [("configuration.md", reference), ("outputs.md", outputs)])
def test_generated_pages_are_in_step(page, module):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert text == module.updated(text), "run: make docs"


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
