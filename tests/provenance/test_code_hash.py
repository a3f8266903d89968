"""The code that a stage reaches: its files, and the edits that count."""

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
from snakemake.iocontainers import Params

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


@pytest.mark.parametrize("script", sorted({*SCRIPTS, *FIGURES} - {"explorer/explorer.py"}))
def test_no_stage_reaches_the_checks_of_a_config_planning_or_kinds_of_tasks(script):
    names = files(script) - {f"scripts/{script}"}
    assert not [name for name in names if name.removeprefix("headspec/").startswith(PLANNING)]
    assert not {Path(name).name for name in names if "/tasks/" in name} & {"kind.py", "registry.py"}


# --- which edits count

ONE = {
    "a.py": '''
        """A module."""
        import os
        from typing import TYPE_CHECKING
        from b import helper
        import c

        if TYPE_CHECKING:
            from d import Unused

        def used(x: int) -> int:
            """Say something."""
            return helper(x) + c.scaled(x)
    ''',
    "b.py": """
        def helper(x): return x
        def beside(x): return 1
        STYLE = "values.json"
    """,
    "c.py": """
        def scaled(x):
            import e
            return x
    """,
    "d.py": "def idle(): return 2",
    "e.py": "from .a import used",
    "values.json": "{}",
    "other.json": "{}",
    "main.py": "import a\nprint(a.used(1))",
}
#: whether any edit of the file counts
REACHED = {name: name not in {"d.py", "other.json"} for name in ONE}


@pytest.fixture
def modules(tmp_path) -> Path:
    for name, text in ONE.items():
        (tmp_path / name).write_text(textwrap.dedent(text).lstrip())
    return tmp_path


@pytest.mark.parametrize(("file", "reached"), REACHED.items())
def test_every_byte_of_the_files_that_a_plugin_reaches_counts_and_no_other(modules, file, reached):
    before = code_hash.by_root([modules / "main.py"])
    (modules / file).write_bytes((modules / file).read_bytes() + b"\n")
    assert (code_hash.by_root([modules / "main.py"]) != before) == reached


def test_packages_of_a_root_count():
    """Python imports them before it."""
    reached = code_hash.files(["headspec/tasks/kinds/texts/data.py"])
    names = ("", "kinds/", "kinds/texts/")
    assert {f"{code_hash.LIBRARY}/tasks/{name}__init__.py" for name in names} < reached


def test_two_modules_that_are_exchanged_count(modules):
    before = code_hash.by_root([modules / "main.py"])
    texts = [(modules / name).read_text() for name in ("b.py", "c.py")]
    for name, text in zip(("c.py", "b.py"), texts, strict=True):
        (modules / name).write_text(text)
    assert code_hash.by_root([modules / "main.py"]) != before


@pytest.mark.parametrize("encoding", ["utf-8-sig", "latin-1"])
def test_plugins_are_read_in_the_encoding_that_they_declare(tmp_path, encoding):
    cookie = "# -*- coding: latin-1 -*-\n" if encoding == "latin-1" else ""
    (tmp_path / "plugin.py").write_bytes(f"{cookie}import other\nNAME = 'é'\n".encode(encoding))
    (tmp_path / "other.py").touch()
    assert {Path(path).name for path in code_hash.files([tmp_path / "plugin.py"])} == {
        "plugin.py",
        "other.py",
    }


#: a module of the library, the same in other layouts, and one that does something else
LAYOUTS = [
    ('x = f(1, "a")', ['x = f(\n    1, "a",\n)  # why', "'''Text.'''\nx = f(1, 'a')"], 'x = f(2, "a")'),
    ("def f():\n    return 1", ['def f():\n    """Text."""\n    return 1'], "def f():\n    return 1.0"),
    ("x = f'a{b}c'", ["x = f'a' f'{b}' 'c'", 'x = f"a{b}c"'], "x = f'a{b!r}c'"),
    ("x: int = 3", ["x: int = 3  # of y\n\n\n'''About x.'''"], "x: str = 3"),
    ("class A:\n    pass", ["class A:\n    '''Text.'''\n\n    pass"], "class A:\n    x = None"),
]


@pytest.mark.parametrize(("text", "same", "other"), LAYOUTS)
def test_comments_docstrings_and_layout_do_not_count(tmp_path, text, same, other):
    def read(text: str) -> str:
        (tmp_path / "module.py").write_text(text)
        return code_hash.parse(tmp_path / "module.py")["hash"]

    assert {read(each) for each in same} == {read(text)} != {read(other)}


@pytest.mark.slow
@pytest.mark.parametrize("python", ["python3.12", "python3.13"])
def test_hashes_are_equal_in_all_pythons(python):
    """The other Python needs no packages: it loads the module alone."""
    if not shutil.which(python) or subprocess.run([python, "-c", ""], capture_output=True).returncode:
        pytest.skip(f"no {python}")
    paths = [str(path) for path in sorted(code_hash.LIBRARY.rglob("*.py"))]
    program = (
        "import sys, types, json\n"
        "for name in ('headspec', 'headspec.provenance', 'headspec.provenance.hashes'):\n"
        "    sys.modules[name] = types.ModuleType(name)\n"
        "sys.modules['headspec.provenance'].hashes = hashes = sys.modules['headspec.provenance.hashes']\n"
        "hashes.FileCache, hashes.StatKey, hashes.stat_key = lambda *given: None, None, None\n"
        "space = {'__file__': sys.argv[1], '__name__': 'code_hash'}\n"
        "exec(compile(open(sys.argv[1]).read(), sys.argv[1], 'exec'), space)\n"
        "print(json.dumps([space['parse'](path)['hash'] for path in sys.argv[2:]]))\n"
    )
    run = subprocess.run(
        [python, "-c", program, code_hash.__file__, *paths], capture_output=True, text=True, check=True
    )
    assert json.loads(run.stdout) == [code_hash.current().parsed(path)["hash"] for path in paths]


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


def test_an_edit_of_the_library_changes_the_hash_of_every_script_that_reaches_it(copy):
    scripts = ("heads/importance.py", "heads/prune.py", "statistics/correlation.py")
    before = hashed(*scripts)
    rewrite(copy / "headspec" / "heads" / "importance.py", "FOLDS = 10", "FOLDS = 5")
    assert {name for name, old in before.items() if hashed(name)[name] != old} == {"heads/importance.py"}
    rewrite(copy / "headspec" / "errors.py", "super().__init__(redacted(", "super().__init__((")
    assert {name for name, old in before.items() if hashed(name)[name] != old} == {*scripts}


STYLE = "plots/drawing/headspec.mplstyle"
#: script, file of the library, old and new text, and whether the edit counts
LIBRARY_EDITS = [
    ("training/train.py", "VERSION", __version__, "99.0", False),
    # files that modules read
    ("training/train.py", "models/types.tsv", "\nbert\t", "\nnew\tdecoder\t\nbert\t", True),
    ("plots/figure.py", STYLE, "font.size", "lines.linewidth: 9\nfont.size", True),
    ("explorer/explorer.py", "explorer/assets/core.js", "function", "function ", True),
]  # fmt: skip


@pytest.mark.parametrize(("script", "file", "old", "new", "counts"), LIBRARY_EDITS)
def test_files_that_modules_read_count_but_not_the_version(copy, script, file, old, new, counts):
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
        code_hash.PARSED.clear()
        monkeypatch.setattr(code_hash, "_code", code_hash.Code())

    forget()
    assert hashed(script) == before and not parsed
    rewrite(copy / "headspec" / "statistics" / "correlation.py", "RANDOM = 9_999", "RANDOM = 9_998")
    after = hashed(script)
    assert parsed == ["correlation.py"] and after != before
    (tmp_path / hashes.FOLDER / code_hash.PARSED.name).write_text("{")  # damaged
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
    params = Params(fromdict={"code": code})
    return SimpleNamespace(input=[], resources={}, params=params, loaded=guard.loaded())  # by the tests


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


def test_an_edit_of_what_a_job_reaches_ends_it(job, tmp_path):
    (tmp_path / "found_by_a_text.py").write_text("def g(): pass\n")
    with guard.unchanged(job):
        publish(tmp_path)
    rewrite(tmp_path / "named_by_it.py", "X = 1\n", "X = 2\n")
    with pytest.raises(ChangedError, match="named_by_it.py was edited after"), guard.unchanged(job):
        publish(tmp_path)
    (tmp_path / "plugin_of_a_job.py").unlink()
    with pytest.raises(ChangedError, match="plugin_of_a_job.py: missing since"), guard.unchanged(job):
        publish(tmp_path)


#: what a plugin does with a file `values.csv` in a folder, and whether it is part of the job
READS = {
    "import json\ndef read(folder): return open(folder / 'values.csv').read()": False,
    "from pathlib import Path\ndef read(folder): return (folder / ('val' + 'ues.csv')).read_bytes()": False,
    "import pandas as pd\ndef read(folder): return pd.read_csv(folder / ('val' + 'ues.csv'))": False,
    "import numpy as np\ndef read(folder): return np.loadtxt(str(folder / 'values.csv'), skiprows=1)": False,
    "import zoneinfo\ndef read(folder): return zoneinfo.ZoneInfo('Europe/Berlin')": True,
    "def read(folder):\n    (folder / 'own').write_text('1')\n    return (folder / 'own').read_text()": True,
    "def read(folder):\n    import wave\n    return wave": True,
}


@pytest.mark.parametrize(("text", "allowed"), READS.items())
@pytest.mark.parametrize("beside", [False, True])
def test_a_job_whose_plugin_reads_a_file_that_is_not_part_of_it_ends_with_its_name(
    tmp_path, monkeypatch, text, allowed, beside
):
    """Beside the plugin, a file that a string there names is part of the job."""
    folder = tmp_path / "plugins" if beside else tmp_path / "elsewhere"
    (tmp_path / "plugins").mkdir()
    folder.mkdir(exist_ok=True)
    (folder / "values.csv").write_text("a\n1\n")
    (tmp_path / "plugins" / "reading.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path / "plugins")
    monkeypatch.delitem(sys.modules, "reading", raising=False)
    code = code_hash.by_root([tmp_path / "plugins" / "reading.py"])
    script = tmp_path / "script.py"
    script.touch()
    os.utime(script, (time.time() + 10, time.time() + 10))
    monkeypatch.setattr(sys, "argv", [str(script)])
    job = SimpleNamespace(
        input=[], resources={}, params=Params(fromdict={"code": code}), loaded=guard.loaded()
    )
    named = beside and "'values.csv'" in text
    with guard.unchanged(job):
        importlib.import_module("reading").read(folder)
        if allowed or named:
            publish(tmp_path)
        else:
            with pytest.raises(UnplannedError, match="values.csv: read by a plugin"):
                publish(tmp_path)
