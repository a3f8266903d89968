"""The code that a stage reaches: which files, and which edits count."""

import ast
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from headspec.provenance import code_hash, hashes
from headspec.version import VERSION
from support.paths import ROOT

FOLDER = ROOT / "workflow" / "scripts"
SCRIPTS = sorted(path.relative_to(FOLDER).as_posix() for path in FOLDER.rglob("*.py"))
#: modules that the script of figures imports by name
FIGURES = [
    f"../{path.relative_to(ROOT / 'workflow')}" for path in (code_hash.LIBRARY / "plots").rglob("*.py")
]
RUN_MODELS = [name for name in SCRIPTS if "ModelStage(" in (FOLDER / name).read_text()]
#: scripts that load torch or transformers
MODEL_STAGES = {"data/tokenize.py", "data/tokenize_texts.py", *RUN_MODELS}


@pytest.fixture
def copy(tmp_path, monkeypatch) -> Path:
    """A copy of the workflow whose closures are looked up."""
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_hash, "LIBRARY", tmp_path / "workflow" / "headspec")
    return tmp_path / "workflow"


def closure(script: str) -> dict[str, str]:
    return code_hash.closure(code_hash.LIBRARY.parent / "scripts" / script)


def rewrite(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


#: a process that has loaded what any job may load forks one for each script that runs no model, then, with
#: torch, one for each that does; they print which of SLOW are loaded, and the files of all modules
STARTING = """
import json, os, sys
import matplotlib.figure, pandas, pyarrow.parquet, scipy.special
slow, *parts = json.loads(sys.stdin.read())
for heavy, imports in zip(["sys", "torch"], parts):
    __import__(heavy)
    for script, code in imports.items():
        if os.fork() == 0:
            exec(code)
            files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
            found = [[n for n in slow if n in sys.modules], sorted(filter(None, files))]
            os.write(1, (json.dumps([script, found]) + "\\n").encode())
            os._exit(0)
        assert os.wait()[1] == 0, script
"""
#: takes half a second to three seconds to import, so a job loads it where it is used, and not at its start
SLOW = ["torch", "transformers", "sklearn", "scipy.stats", "peft", "datasets", "huggingface_hub"]


def imports(script: str) -> str:
    """The imports at the top of a script."""
    nodes = ast.parse((FOLDER / script).read_text()).body
    return "\n".join(ast.unparse(n) for n in nodes if isinstance(n, ast.Import | ast.ImportFrom))


@pytest.fixture(scope="module")
def loaded(shared) -> dict[str, tuple[list[str], list[str]]]:
    """Script: which of SLOW, and the files of which modules, importing what it imports loads."""
    models = {name: imports(name) for name in RUN_MODELS}
    others = {name: imports(name) for name in SCRIPTS if name not in models}

    def fill(folder: Path) -> None:
        folder.mkdir()
        with open(folder / "loaded", "wb") as output:
            subprocess.run(
                [sys.executable, "-c", STARTING], cwd=ROOT / "workflow", check=True, stdout=output,
                input=json.dumps([SLOW, others, models]).encode(),
            )  # fmt: skip

    lines = (shared("modules of scripts", fill) / "loaded").read_text().splitlines()
    return dict(json.loads(line) for line in lines)


@pytest.mark.slow
def test_a_job_starts_without_what_is_slow_to_import(loaded):
    assert set(loaded) == set(SCRIPTS) and len(RUN_MODELS) >= 18
    # tests of voxels need false_discovery_control
    needed = dict.fromkeys(RUN_MODELS, ["torch"]) | {"similarity/voxels.py": ["scipy.stats"]}
    assert {script: names for script, (names, _) in loaded.items() if names} == needed


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.slow
def test_the_closure_holds_every_module_that_python_loads(script, loaded):
    """Compared with what importing the script's modules really loads."""
    library = code_hash.LIBRARY
    files = [Path(file) for file in loaded[script][1]]
    modules = {file.relative_to(library.parent).as_posix() for file in files if library in file.parents}
    assert modules and modules <= set(closure(script))


def test_a_figure_reaches_its_own_module_and_no_other_figure():
    found = set(closure("../headspec/plots/matrix.py"))
    style = "headspec/plots/drawing/style.py"
    assert {"headspec/plots/matrix.py", style} <= found
    assert "headspec/errors.py" in found  # through headspec.tables
    assert not {"headspec/plots/curves.py", "headspec/training/loop.py"} & found


#: modules that read, check or describe a config; those that read data, and statistics
CONFIG = {"study", "consistency", "task_consistency", "iat_consistency", "loading", "reference",
          "head_settings"}  # fmt: skip
TABLES = {"readers", "columns", "prepare", "pairs", "stratify", "dissociation", "resampling", "comparison",
          "correlation", "runs"}  # fmt: skip


@pytest.mark.parametrize("script", SCRIPTS + FIGURES)
def test_no_stage_reaches_the_config_and_none_that_runs_a_model_reaches_data_or_statistics(script):
    """Except for the sections that it imports."""
    files = {Path(name) for name in closure(script) if name.startswith("headspec/")}
    runs_model = script in MODEL_STAGES
    assert not {path.stem for path in files} & (CONFIG | TABLES if runs_model else CONFIG)
    assert not {path.name for path in files if "tasks" in path.parts} & {"kind.py", "kinds.py"}
    assert not {"pipeline", "cost"} & {path.parent.name for path in files}
    pattern = r"from headspec\.config\.sections\.(\w+) import"
    imported = {"__init__", "base", *re.findall(pattern, (FOLDER / script).read_text())}
    sections = {path.stem for path in files if path.parent.name == "sections"}
    assert sections <= imported | ({"model"} if runs_model else set())


def test_imports_for_type_checkers_do_not_count(copy):
    before = closure("training/train.py")
    assert "headspec/config/study.py" not in before
    path = copy / "headspec" / "training" / "loop.py"
    rewrite(path, "if TYPE_CHECKING:\n", "if TYPE_CHECKING:\n    from headspec.config.study import Study\n")
    assert closure("training/train.py") == before
    rewrite(path, "if TYPE_CHECKING:\n", "if True:\n")
    assert {"headspec/config/sections/training.py", "headspec/config/study.py"} <= set(
        closure("training/train.py")
    )


@pytest.mark.parametrize("folder", ["study", "site-packages"])
def test_code_outside_of_the_library_is_followed_in_its_package(tmp_path, folder):
    """Beside a module of a folder that holds installed packages, nothing is its own."""
    root = tmp_path / folder
    (root / "mine" / "inner").mkdir(parents=True)
    files = {
        "mine/__init__.py": "from .measures import *\n",
        "mine/measures.py": "from . import shared\nfrom .inner.deep import DEEP\nimport other\n",
        "mine/shared.py": "from headspec.similarity.measures import Traits\n",
        "mine/inner/__init__.py": "",
        "mine/inner/deep.py": "def late():\n    from mine import lazy\n",
        "mine/lazy.py": "from ..other import x\nimport json\n",
        "mine/unused.py": "",
        "other.py": "import single\n",
        "single.py": "",
    }
    for name, text in files.items():
        (root / name).write_text(text)
    found = code_hash.closure(root / "mine" / "measures.py")
    own = {
        path.relative_to(root).as_posix()
        for path in (Path(os.path.normpath(code_hash.LIBRARY.parent / name)) for name in found)
        if root in path.parents
    }
    beside = {"other.py", "single.py"} if folder == "study" else set()
    assert own == {*files} - {"mine/unused.py", "other.py", "single.py"} | beside
    assert "headspec/similarity/measures.py" in found
    for name, hashed in found.items():
        assert code_hash.code(code_hash.LIBRARY.parent / name) == hashed
    assert len(code_hash.closure(root / "other.py")) == (2 if folder == "study" else 1)


@pytest.mark.slow
def test_edits_change_the_hash_of_every_stage_that_reaches_them(copy):
    before = {script: closure(script) for script in SCRIPTS}
    reaching = {name for name, files in before.items() if "headspec/heads/importance.py" in files}
    assert "heads/importance.py" in reaching and "heads/prune.py" not in reaching
    rewrite(copy / "headspec" / "heads" / "importance.py", "FOLDS = 10", "FOLDS = 5")
    assert {name for name, old in before.items() if closure(name) != old} == reaching
    rewrite(copy / "headspec" / "errors.py", "CLOSE = 0.6", "CLOSE = 0.7")
    assert {name for name, old in before.items() if closure(name) != old} == set(before)


TRAIN, SCHEDULE = "training/train.py", "training/schedule.py"
SECTION, STYLE = "config/sections/training.py", "plots/drawing/headspec.mplstyle"
#: script, file of the library, old and new text, and whether the edit counts
EDITS = [
    (TRAIN, SCHEDULE, "def learning_rate(", "# of a step\n\n\ndef learning_rate(", False),
    (TRAIN, SCHEDULE, '"""Order', '"""The order', False),
    (TRAIN, SCHEDULE, "return peak * (step + 1) / rise", "return peak * step / rise", True),
    (TRAIN, SECTION, 'description="weight decay of AdamW"', 'description="of the optimizer"', False),
    (TRAIN, "errors.py", "{best}'?", "{best}'!", True),
    (TRAIN, "VERSION", VERSION, "99.0", False),
    # files that modules read
    (TRAIN, "models/types.tsv", "\nbert\t", "\nnew\tdecoder\t\nbert\t", True),
    ("plots/figure.py", STYLE, "font.size", "lines.linewidth: 9\nfont.size", True),
]  # fmt: skip


@pytest.mark.parametrize(("script", "file", "old", "new", "counts"), EDITS)
def test_code_and_files_that_it_reads_count_but_not_comments_docs_and_version(
    copy, script, file, old, new, counts
):
    before = closure(script)
    assert "headspec/version.py" in before
    rewrite(copy / "headspec" / file, old, new)
    after = closure(script)
    changed = {name for name, hashed in after.items() if hashed != before[name]}
    assert changed == ({f"headspec/{file}"} if counts else set())


def test_jobs_run_the_code_that_was_hashed_not_what_was_compiled_in_the_same_second(copy):
    path = copy / "headspec" / "seeds.py"
    load = [sys.executable, "-c", "from headspec import seeds; print(seeds.ADDED)"]
    for value in ("1", "2"):
        path.write_text(path.read_text().partition("\nADDED")[0] + f"\nADDED = {value}\n")
        os.utime(path, (1, 1))
        closure("data/few_shot.py")
        run = subprocess.run(load, env=os.environ | {"PYTHONPATH": str(copy)}, capture_output=True, text=True)
        assert run.stdout.strip() == value, run.stderr


def test_the_library_is_importable_in_jobs(monkeypatch, tmp_path):
    """Another headspec that is installed stands behind it."""
    (tmp_path / "headspec").mkdir()
    (tmp_path / "headspec" / "__init__.py").write_text("raise SystemExit('another headspec')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    code_hash.make_importable()
    run = subprocess.run(
        [sys.executable, "-c", "import headspec; print(headspec.__file__)"], capture_output=True, text=True
    )
    assert Path(run.stdout.strip()).parent == code_hash.LIBRARY


def test_unchanged_files_are_not_parsed_again(copy, tmp_path, monkeypatch):
    """Another process, here an empty memory, finds the same hashes and parses what was edited alone."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(hashes, "RECENT", 0)
    script = "statistics/correlation.py"
    before = closure(script)
    parsed = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda text, name: parsed.append(Path(name).name) or parse(text, name))
    code_hash.CODE.clear()
    assert closure(script) == before and not parsed
    rewrite(copy / "headspec" / "statistics" / "similarity" / "mantel.py", "RANDOM = 9_999", "RANDOM = 9_998")
    after = closure(script)
    assert parsed == ["mantel.py"]
    changed = {name for name in before if before[name] != after[name]}
    assert changed == {"headspec/statistics/similarity/mantel.py"}
    (tmp_path / hashes.FOLDER / code_hash.CODE.name).write_text("{")  # damaged
    code_hash.CODE.clear()
    assert closure(script) == after
