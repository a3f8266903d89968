"""The code that a stage reaches: which files, and which edits count."""

from __future__ import annotations

import ast
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headspec import sources

ROOT = Path(__file__).parents[1]
SCRIPTS = sorted((ROOT / "workflow" / "scripts").glob("*.py"))
MODULES = sorted(sources.LIBRARY.rglob("*.py"))
MODEL_STAGES = {
    "branch.py", "retrain.py", "evaluate.py", "predict.py", "features.py",
    "encode.py", "train.py", "importance.py", "prune.py", "encode_texts.py", "text_embedding.py",
    "representations.py", "sensitivity.py", "transfer.py",
}  # fmt: skip


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the workflow whose closures are looked up."""
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(sources, "LIBRARY", tmp_path / "workflow" / "headspec")
    return tmp_path / "workflow"


def closure(script: str) -> dict[str, str]:
    return sources.closure(sources.LIBRARY.parent / "scripts" / script)


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


@pytest.mark.parametrize("script", [path.name for path in SCRIPTS])
def test_the_closure_holds_every_module_that_python_loads(script):
    """Compared with what importing the script's modules really loads."""
    tree = ast.parse((ROOT / "workflow" / "scripts" / script).read_text())
    imports = [n for n in tree.body if isinstance(n, (ast.Import, ast.ImportFrom))]
    code = "\n".join(map(ast.unparse, imports))
    code += "\nimport sys\nfor m in sys.modules.values():\n  print(getattr(m, '__file__', None))"
    run = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT / "workflow", capture_output=True, text=True, check=True
    )
    loaded = {Path(line) for line in run.stdout.splitlines() if line.startswith(str(sources.LIBRARY))}
    names = {path.relative_to(sources.LIBRARY.parent).as_posix() for path in loaded}
    assert names and names <= set(closure(script))


@pytest.mark.parametrize("script", [p.name for p in SCRIPTS if p.name not in MODEL_STAGES])
def test_statistics_and_figures_do_not_load_torch(script):
    for name in closure(script):
        tree = ast.parse((sources.LIBRARY.parent / name).read_text())
        for node in tree.body:
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any(n.split(".")[0] in ("torch", "transformers") for n in names), name


def test_a_figure_reaches_its_own_module_and_no_other_figure():
    found = closure("figure_matrix.py")
    assert {"scripts/figure_matrix.py", "headspec/plots/matrix.py", "headspec/plots/__init__.py"} <= set(
        found
    )
    assert "headspec/errors.py" in found  # through headspec.tables
    assert not {"headspec/plots/curves.py", "headspec/training.py"} & set(found)


#: what reads, checks and describes a config; and the data, which stages read as tables
CONFIG = {"study", "sections", "fields", "crosschecks", "validation", "reference", "grid"}
DATA = {"readers", "columns", "tasks", "pairs", "strata"}


@pytest.mark.parametrize("script", [path.name for path in SCRIPTS])
def test_no_stage_reaches_what_reads_the_config(script):
    found = {Path(name).stem for name in closure(script) if name.startswith("headspec/")}
    assert not found & CONFIG


@pytest.mark.parametrize("script", sorted(MODEL_STAGES))
def test_a_stage_that_runs_a_model_reaches_neither_data_nor_statistics(script):
    found = {Path(name).stem for name in closure(script) if name.startswith("headspec/")}
    assert not found & (DATA | {"dissociation", "resampling", "comparison", "correlation", "runs"})


def test_imports_for_type_checkers_do_not_count(copy):
    before = closure("train.py")
    assert "headspec/sections.py" not in before
    path = copy / "headspec" / "training.py"
    rewrite(path, "if TYPE_CHECKING:\n", "if TYPE_CHECKING:\n    from headspec.study import Study\n")
    assert closure("train.py") == before
    rewrite(path, "if TYPE_CHECKING:\n", "if True:\n")
    assert {"headspec/sections.py", "headspec/study.py"} <= set(closure("train.py"))


def test_a_script_and_a_module_may_have_one_name():
    assert {"scripts/importance.py", "headspec/importance.py"} <= set(closure("importance.py"))


def test_imports_are_absolute():
    """The closure does not follow relative ones."""
    for path in [*MODULES, *SCRIPTS]:
        for node in ast.walk(ast.parse(path.read_text())):
            assert not (isinstance(node, ast.ImportFrom) and node.level), path


def test_edits_of_code_count_wherever_they_are_reached(copy):
    before = {path.name: closure(path.name) for path in SCRIPTS}
    rewrite(copy / "headspec" / "importance.py", "FOLDS = 10", "FOLDS = 5")
    changed = {name for name, old in before.items() if closure(name) != old}
    assert changed == {"branch.py", "importance.py"}
    rewrite(copy / "headspec" / "errors.py", "cutoff=0.6", "cutoff=0.7")
    assert {name for name, old in before.items() if closure(name) != old} == set(before)


def test_comments_docstrings_and_layout_do_not_count(copy):
    before = closure("train.py")
    path = copy / "headspec" / "training.py"
    rewrite(path, "def learning_rate(", "# of a step\n\n\ndef learning_rate(")
    rewrite(path, '"""The rate of `step`', '"""What a docstring says of `step`')
    assert closure("train.py") == before
    rewrite(path, "return peak * (step + 1) / rise", "return peak * step / rise")
    assert closure("train.py") != before


def test_a_text_that_is_no_docstring_counts(copy):
    before = closure("data.py")
    rewrite(copy / "headspec" / "errors.py", "{lowered[found[0]]}'?", "{lowered[found[0]]}'!")
    assert closure("data.py") != before


def test_imports_inside_functions_count(copy):
    (copy / "headspec" / "late.py").write_text("LATE = 1\n")
    before = closure("data.py")
    assert "headspec/late.py" not in before
    path = copy / "headspec" / "errors.py"
    path.write_text(
        path.read_text() + "\n\ndef late():\n    from headspec.late import LATE\n    return LATE\n"
    )
    assert "headspec/late.py" in closure("data.py")


def test_equal_code_under_another_time_is_equal(copy):
    before = closure("prune.py")
    for path in copy.rglob("*.py"):
        path.touch()
    assert closure("prune.py") == before


def test_style(copy):
    before = sources.style()
    path = copy / "headspec" / "plots" / "headspec.mplstyle"
    path.write_text(path.read_text() + "lines.linewidth: 9\n")
    assert sources.style() != before


def test_the_library_is_importable_in_jobs(monkeypatch):
    monkeypatch.setenv("PYTHONPATH", "elsewhere")
    sources.make_importable()
    run = subprocess.run(
        [sys.executable, "-c", "import headspec; print(headspec.__file__)"], capture_output=True, text=True
    )
    assert Path(run.stdout.strip()).parent == sources.LIBRARY
