"""The code that a stage reaches: which files, and which edits count."""

import ast
import importlib
import json
import os
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

from headspec import __version__
from headspec.errors import ChangedError, UnplannedError
from headspec.provenance import code_hash, guard, hashes
from headspec.provenance.files import atomic
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
    """A copy of the workflow whose code is looked up."""
    shutil.copytree(ROOT / "workflow", tmp_path / "workflow", ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(code_hash, "LIBRARY", tmp_path / "workflow" / "headspec")
    return tmp_path / "workflow"


def root(script: str) -> Path:
    return code_hash.LIBRARY.parent / "scripts" / script


def hashed(*scripts: str) -> dict[str, str]:
    """Script: the hash of what it reaches."""
    found = code_hash.by_root(map(root, scripts))
    return {os.path.relpath(name, "scripts"): value for name, value in found.items()}


def files(script: str) -> set[str]:
    """The files that a script reaches, below the folder of the library."""
    return {os.path.relpath(path, code_hash.LIBRARY.parent) for path in code_hash.files([root(script)])}


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
    needed = dict.fromkeys(RUN_MODELS, ["torch"])
    assert {script: names for script, (names, _) in loaded.items() if names} == needed


@pytest.mark.parametrize("script", SCRIPTS)
@pytest.mark.slow
def test_every_module_that_python_loads_is_reached(script, loaded):
    """Compared with what importing the script's modules really loads."""
    library = code_hash.LIBRARY
    modules = {file for file in loaded[script][1] if library in Path(file).parents}
    assert modules and modules <= code_hash.files([root(script)])


#: packages that decide what runs, and no result
PLANNING = ("config/checks", "config/raw", "pipeline", "cost", "live")


@pytest.mark.parametrize("script", SCRIPTS + FIGURES)
def test_no_stage_reaches_the_checks_of_a_config_planning_or_kinds_that_it_does_not_use(script):
    reached = code_hash.current().reached(code_hash.node_of(root(script)))
    own = {node.path for node in reached if node.name and code_hash.current().definition(node).text}
    names = {os.path.relpath(path, code_hash.LIBRARY) for path in own}
    assert not [name for name in names if name.startswith(PLANNING) and "/commands/" not in name]
    assert not {Path(name).name for name in names if name.startswith("tasks/")} & {"kind.py", "registry.py"}


# --- which edits count

ONE = {
    "a.py": '''
        """A module."""
        import os
        from typing import TYPE_CHECKING
        from b import helper, LIMIT
        import c

        if TYPE_CHECKING:
            from d import Unused

        def used(x: int) -> int:
            """Say something."""
            y: float = helper(x) + c.scaled(x)
            return min(y, LIMIT, OWN)

        OWN = 3
        def unused(): return os.sep
    ''',
    "b.py": """
        LIMIT: int = 9
        OTHER = 1
        def helper(x): return again(x)
        def again(x): return helper(x - 1) if x else 0
        class Whole:
            size: int = 4
            def method(self): return 1
    """,
    "c.py": """
        from d import factor
        NAMES = {}
        def scaled(x):
            import e
            return factor() * x + Fields.unread
        class Fields:
            unread: int = 0
            plain = 0
        def unread(): return 4
        def plain(): return 4
    """,
    "d.py": """
        import math
        def factor(): return math.pi
        def idle(): return 2
    """,
    "e.py": """
        import d
        REGISTRY = []
        REGISTRY.append(d)
        def late(): return 1
    """,
    "main.py": """
        import a
        print(a.used(1))
    """,
}
#: file, old, new, and whether the edit counts
EDITS = [
    ("a.py", "y: float = ", "y = ", False),
    ("a.py", "x: int) -> int", "x)", False),
    ("a.py", "Say something", "Say anything", False),
    ("a.py", "import os\n", "", False),
    ("a.py", "from d import Unused", "from d import idle", False),
    ("a.py", "from b import helper, LIMIT\nimport c", "import c\nfrom b import helper, LIMIT", False),
    ("a.py", "OWN = 3", "OWN: int = 3  # a number", False),
    ("a.py", "return os.sep", "return None", False),
    ("a.py", "OWN = 3", "OWN = 4", True),
    ("a.py", "min(y", "max(y", True),
    ("a.py", "import helper, LIMIT", "import again as helper, LIMIT", True),
    ("b.py", "LIMIT: int = 9", "LIMIT = 9", False),
    ("b.py", "LIMIT: int = 9", "LIMIT: int = 8", True),
    ("b.py", "OTHER = 1", "OTHER = 2", False),
    ("b.py", "return 1", "return 2", False),
    ("b.py", "if x else 0", "if x else 1", True),
    ("b.py", "OTHER = 1", "OTHER = 1\nprint(OTHER)", True),  # something done when it is imported
    ("c.py", "NAMES = {}", "NAMES = {}\nNAMES['x'] = 1", True),
    ("c.py", "from d import factor", "from d import idle as factor", True),
    ("c.py", "def unread(): return 4", "def unread(): return 5", False),  # no field of the class
    ("c.py", "def plain(): return 4", "def plain(): return 5", False),
    ("c.py", "unread: int = 0", "unread: int = 1", True),
    ("d.py", "return 2", "return 3", True),  # e.py keeps the module, of which all counts
    ("d.py", "math.pi", "math.e", True),
    ("d.py", "import math", "import cmath as math", True),  # another package
    ("e.py", "REGISTRY.append(d)", "REGISTRY.append(2)", True),
    ("e.py", "def late(): return 1", "", False),
    ("main.py", "a.used(1)", "a.used(2)", True),
]  # fmt: skip


@pytest.fixture
def modules(tmp_path) -> Path:
    for name, text in ONE.items():
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
    return tmp_path


@pytest.mark.parametrize(("file", "old", "new", "counts"), EDITS)
def test_an_edit_counts_if_it_changes_what_a_definition_that_is_reached_does(modules, file, old, new, counts):
    before = code_hash.by_root([modules / "main.py"])
    rewrite(modules / file, old, new)
    assert (code_hash.by_root([modules / "main.py"]) != before) == counts


def test_definitions_may_move_between_files_and_files_may_be_merged(modules):
    (modules / "e.py").write_text("REGISTRY = []\n")  # it keeps a module, of which all counts
    before = code_hash.by_root([modules / "main.py"])
    rewrite(modules / "b.py", "def again(x): return helper(x - 1) if x else 0\n", "")
    rewrite(modules / "b.py", "LIMIT", "from f import again\nLIMIT")
    (modules / "f.py").write_text(
        "from b import helper\n\n\ndef again(x): return helper(x - 1) if x else 0\n"
    )
    assert code_hash.by_root([modules / "main.py"]) == before
    rewrite(modules / "c.py", "from d import factor", "import math\ndef factor(): return math.pi")
    (modules / "d.py").write_text("")
    assert code_hash.by_root([modules / "main.py"]) == before


def test_equal_definitions_of_two_modules_that_are_exchanged_count(modules):
    """Their texts are those of before, but what their names stand for is not."""
    (modules / "g.py").write_text("from b import helper as first\nfrom d import factor as second\n")
    (modules / "main.py").write_text("import g\nprint(g.first(1), g.second())\n")
    before = code_hash.by_root([modules / "main.py"])
    (modules / "g.py").write_text("from b import helper as second\nfrom d import factor as first\n")
    assert code_hash.by_root([modules / "main.py"]) != before


def test_a_root_may_be_one_definition(modules):
    before = code_hash.by_root([f"{modules}/b.py:LIMIT", f"{modules}/b.py:helper"])
    rewrite(modules / "b.py", "if x else 0", "if x else 1")
    after = code_hash.by_root([f"{modules}/b.py:LIMIT", f"{modules}/b.py:helper"])
    assert [name.partition(":")[2] for name in before if before[name] != after[name]] == ["helper"]


@pytest.mark.parametrize("folder", ["study", "site-packages"])
def test_code_outside_of_the_library_is_followed_in_its_package(tmp_path, monkeypatch, folder):
    """Beside a module of a folder that holds installed packages, nothing is its own."""
    place = tmp_path / folder
    (place / "mine" / "inner").mkdir(parents=True)
    texts = {
        "mine/__init__.py": "from .measures import *\n",
        "mine/measures.py": "from . import shared\nfrom .inner.deep import late\nimport other\nLATE = late\n",
        "mine/shared.py": "from headspec.similarity.measures import Traits\n",
        "mine/inner/__init__.py": "",
        "mine/inner/deep.py": "def late():\n    from mine import lazy\n",
        "mine/lazy.py": "from ..other import x\nimport json\n",
        "mine/unused.py": "",
        "other.py": "import single\n",
        "single.py": "",
    }
    for name, text in texts.items():
        (place / name).write_text(text)
    if folder == "site-packages":
        monkeypatch.setattr(code_hash, "INSTALLED", (*code_hash.INSTALLED, f"{os.path.realpath(place)}/"))
    found = code_hash.files([place / "mine" / "measures.py"])
    own = {Path(path).relative_to(place).as_posix() for path in found if place in Path(path).parents}
    beside = {"other.py", "single.py"} if folder == "study" else set()
    assert own == {*texts} - {"mine/unused.py", "other.py", "single.py"} | beside
    assert f"{code_hash.LIBRARY}/similarity/measures.py" in found


@pytest.mark.slow
def test_an_edit_of_the_library_changes_the_hash_of_every_script_that_reaches_it(copy):
    before = hashed(*SCRIPTS)
    folds = code_hash.Node(str(copy / "headspec" / "heads" / "importance.py"), "FOLDS")
    graph = code_hash.current()
    reaching = {name for name in SCRIPTS if folds in graph.reached(code_hash.node_of(root(name)))}
    assert "heads/importance.py" in reaching and "heads/prune.py" not in reaching
    rewrite(copy / "headspec" / "heads" / "importance.py", "FOLDS = 10", "FOLDS = 5")
    assert {name for name, old in before.items() if hashed(name)[name] != old} == reaching
    rewrite(copy / "headspec" / "errors.py", "super().__init__(redacted(", "super().__init__((")
    assert {name for name, old in before.items() if hashed(name)[name] != old} == set(before)


SECTION, STYLE = "config/sections/training.py", "plots/drawing/headspec.mplstyle"
#: script, file of the library, old and new text, and whether the edit counts
LIBRARY_EDITS = [
    ("training/train.py", SECTION, 'description="weight decay of AdamW"', 'description="of AdamW"', False),
    ("training/train.py", "VERSION", __version__, "99.0", False),
    # files that modules read
    ("training/train.py", "models/types.tsv", "\nbert\t", "\nnew\tdecoder\t\nbert\t", True),
    ("plots/figure.py", STYLE, "font.size", "lines.linewidth: 9\nfont.size", True),
    ("explorer/explorer.py", "explorer/assets/core.js", "function", "function ", True),
]  # fmt: skip


@pytest.mark.parametrize(("script", "file", "old", "new", "counts"), LIBRARY_EDITS)
def test_files_that_definitions_read_count_but_not_descriptions_and_the_version(
    copy, script, file, old, new, counts
):
    before = hashed(script)
    rewrite(copy / "headspec" / file, old, new)
    assert (hashed(script) != before) == counts


def test_jobs_run_the_code_that_was_hashed_not_what_was_compiled_in_the_same_second(copy):
    path = copy / "headspec" / "seeds.py"
    load = [sys.executable, "-c", "from headspec import seeds; print(seeds.ADDED)"]
    for value in ("1", "2"):
        path.write_text(path.read_text().partition("\nADDED")[0] + f"\nADDED = {value}\n")
        os.utime(path, (1, 1))
        hashed("data/few_shot.py")
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
    before = hashed(script)
    parsed = []
    parse = ast.parse
    monkeypatch.setattr(ast, "parse", lambda *given: parsed.append(Path(given[1]).name) or parse(*given))

    def forget() -> None:
        code_hash.MODULES.clear()
        monkeypatch.setattr(code_hash, "_graph", code_hash.Graph())

    forget()
    assert hashed(script) == before and not parsed
    rewrite(copy / "headspec" / "statistics" / "correlation.py", "RANDOM = 9_999", "RANDOM = 9_998")
    after = hashed(script)
    assert parsed == ["correlation.py"] and after != before
    (tmp_path / hashes.FOLDER / code_hash.MODULES.name).write_text("{")  # damaged
    forget()
    assert hashed(script) == after


# --- what a job loads


@pytest.fixture
def job(tmp_path, monkeypatch) -> SimpleNamespace:
    """A job whose code is a plugin, planned before its script was written."""
    (tmp_path / "plugin_of_a_job.py").write_text("import named_by_it\n")
    (tmp_path / "named_by_it.py").write_text("X = 1\n")
    (tmp_path / "found_by_a_text.py").write_text("def f(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    code = code_hash.by_root([tmp_path / "plugin_of_a_job.py"])
    script = tmp_path / "script.py"
    script.touch()
    os.utime(script, (time.time() + 10, time.time() + 10))
    monkeypatch.setattr(sys, "argv", [str(script)])
    before = frozenset(guard.loaded(code))  # by the tests
    return SimpleNamespace(input=[], resources={}, params=SimpleNamespace(code=code), loaded=before)


def publish(folder: Path) -> None:
    with atomic(folder / "result") as temporary:
        temporary.touch()


def test_a_job_that_loads_a_module_beyond_its_plan_ends_with_its_name(job, tmp_path):
    with guard.unchanged(job):
        importlib.import_module("plugin_of_a_job")
        publish(tmp_path)
        importlib.import_module("found_by_" + "a_text")
        with pytest.raises(UnplannedError, match="found_by_a_text.py: loaded by this job"):
            publish(tmp_path)


def test_what_runs_the_script_of_a_job_is_no_code_of_it(job, tmp_path, monkeypatch):
    """`multiprocessing` keeps the main module under another name; torch names files that are not there."""
    files = {"__main__": code_hash.LIBRARY / "pipeline" / "warm.py", "torch.gone": tmp_path / "gone.py"}
    for i, (name, path) in enumerate(files.items()):
        module = ModuleType(name)
        module.__file__ = str(path)
        monkeypatch.setitem(sys.modules, f"__other_{i}__", module)
    with guard.unchanged(job):
        publish(tmp_path)


def test_an_edit_of_what_a_job_reaches_ends_it_and_another_edit_does_not(job, tmp_path):
    rewrite(tmp_path / "named_by_it.py", "X = 1\n", "X = 1\n\n\ndef unused():\n    return 2\n")
    with guard.unchanged(job):
        publish(tmp_path)
    rewrite(tmp_path / "named_by_it.py", "X = 1\n", "X = 1\nprint(end='')\n")
    with pytest.raises(ChangedError, match="named_by_it.py was edited after"), guard.unchanged(job):
        publish(tmp_path)
