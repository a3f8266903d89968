"""Plugins: what they add to the lists of measures and pruning methods, and what is wrong with some."""

import copy
import itertools
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from headspec import plugins
from headspec.config import plugin_entries
from headspec.config.loading import load
from headspec.config.measures import heads, similarity
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.config.sections.task import determinants
from headspec.errors import ConfigError, HeadspecError
from headspec.pipeline import preflight
from headspec.tasks import parts
from headspec.training.gated import Sets
from headspec.training.pruned_run import kept_by_plugin as chosen_by
from support.running.studies import CONFIG, TOKEN

IMPORTS = "from headspec.plugins import head_measure, similarity_measure, pruning_method\n"
GOOD = f"""{IMPORTS}
@head_measure("mine", "my measure")
def heads(model, task, examples, rows, device): ...

@head_measure("derived", "my other measure", of="relevance")
def derived(table): return table

@similarity_measure("my-similarity", "my similarity", of="top")
def similar(a, b): return 1.0

@pruning_method("first", "the first heads")
def first(importance, count, rng): ...
"""
RANKED = {"atlas": {"rankings": ["mine"]}}
NUMBERS = itertools.count()


@pytest.fixture
def plugin(tmp_path, monkeypatch) -> Iterator[Callable[..., str]]:
    """Writes a plugin into the working folder, or a file with a name of its own; its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str, name: str = "plugin{}.py") -> str:
        path = Path(name.format(next(NUMBERS)))
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        return str(path)

    yield write
    plugin_entries.load([])


def study(*names: str, **sections: Any) -> dict[str, Any]:
    return copy.deepcopy(CONFIG) | {"plugins": [*names]} | sections


def refused(*names: str, **sections: Any) -> str:
    """Why a study is refused."""
    with pytest.raises(ConfigError) as error:
        load(study(*names, **sections))
    return str(error.value)


def test_names_of_a_plugin_are_those_of_its_study_alone(plugin):
    sections = {
        "atlas": {"rankings": ["importance", "mine", "derived"]},
        "gates": {"pruning_methods": ["first", "mine", "fresh"], "source": "first"},
        "similarity": {"measures": ["my-similarity"]},
        "mixtures": {"pairs": ["tone", "topic", "match"]},
    }
    path = plugin(GOOD)
    loaded = load(study(path, **sections))
    assert loaded.atlas.measured == ["mine"] and loaded.atlas.derived == {"derived": "relevance"}
    assert heads.MEASURES["mine"].function == f"{path}:heads"
    assert similarity.MEASURES["my-similarity"].function == f"{path}:similar"
    assert similarity.MEASURES["rsa"].function == "headspec.similarity.measures:rsa"
    assert loaded.similarity.comparing("top") == ["my-similarity"]
    assert PRUNING_METHODS["first"].function == f"{path}:first" and PRUNING_METHODS["mine"].chosen == "ranked"
    assert plugins.function(heads.MEASURES["derived"].function)(3) == 3
    with_it = refused(path, atlas={"rankings": ["mien"]})
    assert with_it.endswith("or one of a plugin. Did you mean 'mine'?")
    without = refused(**sections)
    for told in (
        "atlas.rankings.1: got 'mine', expected ",
        "gates.pruning_methods.0: got 'first', expected ",
        "gates.source: got 'first', expected ",
        "similarity.measures.0: got 'my-similarity', expected paradigm, text",
    ):
        assert told in without


def test_modules_of_its_folder_and_the_working_folder_are_found_by_name(plugin):
    package = Path(plugin("from .shared import heads\n", "package{}/__init__.py")).parent
    plugin(GOOD, f"{package}/shared.py")
    load(study(str(package), **RANKED))
    assert heads.MEASURES["mine"].function == f"{package}:heads"
    plugin("LABEL = 'from beside'\n", "elsewhere/beside_it.py")
    text = "import beside_it\n" + GOOD.replace("'my measure'", "beside_it.LABEL")
    load(study(plugin(text, "elsewhere/uses_it.py"), **RANKED))


def test_what_a_plugin_imports_is_part_of_its_code(plugin, tmp_path):
    path = plugin(GOOD)
    references = [f"{path}:heads", None, f"{path}:other", "headspec.atlas.sample:specific"]
    assert plugins.roots(references) == [
        f"{tmp_path / path}", f"{Path(plugins.__file__).parent / 'atlas' / 'sample.py'}"
    ]  # fmt: skip


WRONG = {
    "": " declares nothing; expected functions under a decorator of headspec.plugins",
    "import a_module_that_is_not_there\n": ", line 1: ModuleNotFoundError: No module named 'a_module_that",
    "\nx = 1 / 0\n": ", line 2: ZeroDivisionError: division by zero",
    "\ndef f(:\n": ", line 2: SyntaxError: ",
    "import sys\nsys.exit('bye')\n": ", line 2: SystemExit: bye",
    GOOD.replace('"my-similarity"', '"rsa"'): ", line 9: 'rsa' is already taken",
    GOOD.replace(
        '"my-similarity"', '"Size"'
    ): ", line 9: 'Size' is a predictor of gains; expected a name other than size, all, baseline",
    GOOD.replace('"mine"', '"Importance"'): ", line 3: 'Importance' is already taken (case is ignored)",
    GOOD.replace('"mine"', '"roles"'): ", line 3: 'roles' is already taken",
    GOOD.replace('"first"', '"mine"'): ", line 12: 'mine' is already taken",
    GOOD.replace('"mine"', '"a/b"'): ", line 3: got 'a/b' as a name, expected name (at most 64 letters",
    GOOD.replace('of="relevance"', 'of="relevence"'): ", line 6: no table of measures 'relevence'; expected "
    "one of attention, relevance, ablation. Did you mean 'relevance'?",
    GOOD.replace('of="top"', 'of="fisher"'): ", line 9: no trait 'fisher'; expected one of paradigm, text",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text][:40])
def test_what_is_wrong_with_a_plugin_is_said_with_key_file_and_line(plugin, text):
    other, path = plugin(f"{IMPORTS}@pruning_method('w', 'w')\ndef w(): ..."), plugin(text)
    told = refused(other, path)
    assert told.startswith("plugins.1: ") and path + WRONG[text] in told


def test_the_line_of_an_error_is_that_of_the_module_beside_it(plugin):
    plugin("\n\n{}['a']\n", "broken_helper.py")
    told = refused(plugin("import broken_helper\n"))
    assert told.endswith("broken_helper.py, line 3: KeyError: 'a'")


def test_missing_modules_files_and_names_that_cannot_be_imported_are_named(plugin):
    """Folders of a package have an __init__.py, without which the hash of its code would lack modules."""
    path, space = plugin(GOOD), Path(plugin(GOOD, "namespace{}/mine.py")).parent
    for name, told in {
        "no_such_module": "plugins.0: no_such_module: no module 'no_such_module' is installed, or in the",
        path[:-3].upper(): f" Did you mean '{path[:-3]}'?",
        path.replace("p", "q", 1): f"plugins.0: no file or folder 'q{path[1:]}' in ./",
        "measures/mine": "expected an import name, or the path of a file *.py or of a folder with kind.py.",
        plugin(GOOD, "statistics.py"): "plugins.0: statistics.py: 'statistics' is the module ",
        str(space): "__init__.py",
        f"{space}.mine": "__init__.py",
        "sys": "plugins.0: sys: 'sys' is not a file; expected a module, or a package with __init__.py",
        "": "plugins.0: ",
        "~nobody-here/mine.py": "plugins.0: ",
        "a\tb.py": "plugins.0: ",
    }.items():
        assert told in refused(name)


@pytest.mark.parametrize("value", ["mine", {"a": 1}, [None], 3])
def test_plugins_are_a_list_of_texts(value):
    assert plugin_entries.named(study(plugins=value)) == []
    assert refused(plugins=value).startswith("plugins")


def test_a_config_with_a_secret_imports_nothing(plugin, tmp_path, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", TOKEN)
    path = plugin("open('imported', 'w')\n" + GOOD)
    config = study(path, f"{TOKEN}.py")
    with pytest.raises(HeadspecError) as error:
        preflight.load(config)
    assert "plugins.1: holds a password or token" in str(error.value)
    assert TOKEN not in str(error.value) + plugin_entries.notice(config)
    assert plugin_entries.notice(config).startswith(f"plugins: imports {path}, ")
    assert not (tmp_path / "imported").exists()


# --- kinds of tasks

KIND = """
from headspec.tasks.kinds.{folder}.kind import {kind}
from pydantic import Field

class Mine({kind}):
    keys = {{**{kind}.keys, "{key}": (float | None, Field(None, gt=0, description="the largest score"))}}

KIND = Mine()
"""


#: a module of a kind of these tests for each of its parts
PARTS = {"data": "DATA", "head": "HEAD", "metrics": "METRICS"}


def folder_of(kind: str) -> str:
    return parts.file_of(kind, "KIND").parent.name


def parts_of(base: str) -> dict[str, str]:
    """Modules with parts of a kind that are those of another."""
    family = f"headspec.tasks.kinds.{folder_of(base)}"
    prefix = "" if folder_of(base) == base else f"{base.upper()}_"
    return {
        f"{module}.py": f"from {family}.{module} import {prefix}{name} as {name}\n"
        for module, name in PARTS.items()
    }


@pytest.fixture
def kind(plugin) -> Callable[..., str]:
    """Writes a kind of task that is another one with a `key`, with other files, or without some (None)."""

    def write(base: str = "regression", key: str = "bound", files: Any = ()) -> str:
        folder = f"kind{next(NUMBERS)}"
        whole = KIND.format(folder=folder_of(base), kind=base.capitalize(), key=key)
        for name, text in ({"kind.py": whole} | parts_of(base) | dict(files)).items():
            if text is not None:
                plugin(text, f"{folder}/{name}")
        return folder

    return write


def test_a_kind_has_keys_of_its_own_and_those_of_its_base(kind):
    tokens = {"encoding.py": "from headspec.tasks.kinds.translation.encoding import ENCODING"}
    scored, written = kind(), kind("translation", "least", tokens)
    tasks = {
        "a": {"source": "a.csv", "type": scored, "bound": "2.5"},
        "b": {"source": "b.csv", "type": written, "prefix": "so: ", "beams": 3, "least": 1},
        "c": {"source": "c.csv"},
    }
    mixtures = {"single": ["a", "b", "c"]}
    loaded = load(study(scored, written, tasks=tasks, mixtures=mixtures, methods=["tuned"])).tasks
    assert loaded["a"].bound == 2.5 and (loaded["b"].prefix, loaded["b"].beams) == ("so: ", 3)
    assert plugin_entries.KINDS[written].beams(loaded["b"]) == 3
    assert determinants(loaded["a"])["bound"] == 2.5 and "prefix" not in determinants(loaded["a"])
    assert determinants(loaded["b"])["prefix"] == "so: " and "beams" not in determinants(loaded["b"])
    assert not {"bound", "prefix"} & determinants(loaded["c"]).keys()
    for changed, told in {
        ("a", "bound", -1): "tasks.a.bound: got -1, expected number > 0.",
        ("a", "bund", 1): "Did you mean 'bound'?",
        (
            "a",
            "prefix",
            "x",
        ): f"has no effect for a {scored} task; expected tasks.a.type: translation or {written}",
        (
            "c",
            "bound",
            1,
        ): f"has no effect for a classification task; expected tasks.c.type: {scored}.",
    }.items():
        name, key, value = changed
        other = copy.deepcopy(tasks)
        other[name][key] = value
        assert told in refused(scored, written, tasks=other, mixtures=mixtures, methods=["tuned"])
    assert "no key 'bound' in tasks.a" in refused(tasks=tasks, mixtures=mixtures, methods=["tuned"])


#: a file of the kind and its text, or what to replace in it
WRONG_KINDS = {
    ("data.py", None): "/data.py: does not define DATA",
    ("data.py", "READER = 3"): "/data.py: does not define DATA",
    ("head.py", "from . import data"): "/head.py: does not define HEAD",
    ("head.py", "def f(:"): "/head.py, line 1: SyntaxError",
    ("metrics.py", "METRICS = {}\nMETRICS['mine']"): "/metrics.py, line 2: KeyError: 'mine'",
    ("__init__.py", "FAMILY = 'word'"): "/__init__.py: got FAMILY 'word', expected one of ",
    ("kind.py", "KIND = 3"): "/kind.py: got 3 as KIND, expected a Kind",
    ("kind.py", ("KIND = Mine()", "KIND = Mine")): " as KIND, expected a Kind",
    (
        "kind.py",
        ("class Mine(Regression)", "class Mine(Regression.__base__)"),
    ): "/kind.py: KIND has no about, metrics, which `Kind` requires",
    (
        "kind.py",
        ("keys =", "metrics = ('spaerman',)\n    keys ="),
    ): "/kind.py: got metric 'spaerman', expected one "
    "of METRICS of the kind, or of another type. Did you mean 'spearman'?",
    ("kind.py", ('"bound"', '"source"')): "/kind.py: key 'source' is already taken",
    ("kind.py", ('"bound"', '"prefix"')): "/kind.py: key 'prefix' is already taken",
    ("kind.py", ('"bound"', '"copy"')): "/kind.py: key 'copy' is already taken",
    ("kind.py", ('"bound"', '"my-key"')): "/kind.py: key 'my-key' cannot be a key; expected letters, digits",
    ("kind.py", ("Field(None", "Field(...")): "/kind.py: key 'bound' has no default, which",
    ("kind.py", ("(float | None, ", "(")): "/kind.py: key 'bound' has ",
    (
        "kind.py",
        ("float | None, Field(None, gt=0,", "Regression, Field(None,"),
    ): "/kind.py: key 'bound' has a type that a config cannot have: Unable to generate",
}


@pytest.mark.parametrize(("file", "text"), WRONG_KINDS)
def test_what_is_wrong_with_a_kind_is_said_with_its_file(kind, file, text):
    if isinstance(text, tuple):
        good = KIND.format(folder="texts", kind="Regression", key="bound")
        assert text[0] in good
        new = good.replace(*text)
    else:
        new = text
    folder = kind(files={file: new})
    told = refused(folder)
    assert told.startswith("plugins.0: ") and WRONG_KINDS[file, text] in told and folder in told


def test_metrics_of_a_kind_may_be_those_of_another(kind):
    load(study(kind(files={"metrics.py": None})))


@pytest.mark.parametrize("part", parts.PARTS)
def test_a_part_of_a_kind_is_in_the_module_of_its_name(kind, part):
    told = refused(kind(files={"more.py": f"{part} = 1"}))
    assert f"/more.py: defines {part}, which belongs in {part.lower()}.py" in told


def test_all_parts_that_a_kind_lacks_are_named(kind):
    told = refused(kind(files={"data.py": None, "head.py": "", "metrics.py": ""}))
    assert re.findall(r"does not define (\w+)", told) == ["DATA", "HEAD"]


# --- pruning methods

FIXED = np.array([False, True, False])
MAPS = {"a": np.arange(12.0).reshape(3, 4), "b": -np.arange(12.0).reshape(3, 4)}


@pytest.fixture
def choice(plugin) -> Callable[[str], Callable[[int], np.ndarray]]:
    """Of the expression that a pruning method returns: the heads that it keeps, by seed."""

    def made(returned: str) -> Callable[[int], np.ndarray]:
        begun = f"{IMPORTS}import numpy as np\n@pruning_method('w', 'w')\ndef w(importance, count, rng):\n"
        source = f"{plugin(f'{begun}    return {returned}')}:w"
        return lambda seed: chosen_by(Sets([*MAPS], True), MAPS, 7, source, seed, FIXED)

    return made


def test_a_pruning_method_chooses_among_the_heads_that_can_close(choice):
    kept = choice("importance >= np.sort(importance, axis=None)[-count]")(0)
    assert kept.dtype == bool and np.flatnonzero(kept[0]).tolist() == [4, 5, 6, 7, 9, 10, 11]
    assert np.flatnonzero(kept[1]).tolist() == [0, 1, 2, 4, 5, 6, 7]
    drawn = choice("rng.permuted(np.arange(importance.size) < count).reshape(importance.shape)")
    first, again, other = (drawn(seed) for seed in (0, 0, 1))
    assert (first == again).all() and (first != other).any() and (first[0] != first[1]).any()


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("None", "returned a NoneType, expected an array of shape (2, 4)"),
        ("importance[0] > 0", "returned shape (4,), expected an array of shape (2, 4)"),
        ("importance > 100", "returned 0 heads, expected 3 heads as bool"),
        ("importance", "returned an array of type float64, expected 3 heads as bool"),
    ],
)
def test_a_pruning_method_that_returns_something_else_is_named(choice, returned, told):
    with pytest.raises(ConfigError, match=rf"^plugin\d+\.py:w: {re.escape(told)}"):
        choice(returned)(0)
