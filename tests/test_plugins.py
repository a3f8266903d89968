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
from headspec.config import plugged
from headspec.config.loading import load
from headspec.config.measures import heads, similarity
from headspec.config.pruning_methods import PRUNING_METHODS
from headspec.errors import ConfigError, HeadspecError
from headspec.pipeline import preflight
from headspec.training.pruned.gated import Sets
from headspec.training.pruned.kept_heads import plugged as chosen_by
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
NUMBERS = itertools.count()


@pytest.fixture
def plugin(tmp_path, monkeypatch) -> Iterator[Callable[[str], str]]:
    """Writes a plugin into the working folder under a name of its own; its path."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [*sys.path])

    def write(text: str) -> str:
        path = Path(f"plugin{next(NUMBERS)}.py")
        path.write_text(text)
        return str(path)

    yield write
    plugged.load([])


def study(*names: str, **sections: Any) -> dict[str, Any]:
    return copy.deepcopy(CONFIG) | {"plugins": [*names]} | sections


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
    assert heads.function("mine") == f"{path}:heads"
    assert similarity.functions(["my-similarity", "rsa"]) == {
        "my-similarity": f"{path}:similar",
        "rsa": "headspec.similarity.measures:rsa",
    }
    assert loaded.similarity.asked("importance") == ["my-similarity"]
    assert PRUNING_METHODS["first"].function == f"{path}:first" and PRUNING_METHODS["mine"].chosen == "ranked"
    assert plugins.function(heads.function("derived"))(3) == 3
    with pytest.raises(ConfigError) as refused:
        load(study(**sections))
    for key, name in [
        ("atlas.rankings.1", "mine"),
        ("gates.pruning_methods.0", "first"),
        ("gates.source", "first"),
    ]:
        assert f"{key}: got '{name}', expected " in str(refused.value)
    assert "similarity.measures.0: got 'my-similarity', expected paradigm, text" in str(refused.value)


def test_an_unknown_name_beside_a_plugin_is_told_the_nearest_of_it(plugin):
    with pytest.raises(ConfigError, match=r"or one of a plugin\. Did you mean 'mine'\?"):
        load(study(plugin(GOOD), atlas={"rankings": ["mien"]}))


def test_modules_of_its_folder_and_the_working_folder_are_found_by_name(plugin, tmp_path):
    package = tmp_path / f"package{next(NUMBERS)}"
    package.mkdir()
    (package / "__init__.py").write_text("from .shared import heads\n")
    (package / "shared.py").write_text(GOOD)
    load(study(package.name, atlas={"rankings": ["mine"]}))
    assert heads.function("mine") == f"{package.name}:heads"
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "beside_it.py").write_text("LABEL = 'from beside'\n")
    (folder / "uses_it.py").write_text("import beside_it\n" + GOOD.replace("'my measure'", "beside_it.LABEL"))
    load(study("elsewhere/uses_it.py", atlas={"rankings": ["mine"]}))


def test_what_a_plugin_imports_is_part_of_its_code(plugin, tmp_path):
    path = plugin(GOOD)
    assert plugins.files([f"{path}:heads", None, "headspec.atlas.specific:measure"]) == [
        str(tmp_path / path),
        str(Path(plugins.__file__).parent / "atlas" / "specific.py"),
    ]


WRONG = {
    "": " declares nothing; expected functions under a decorator of headspec.plugins",
    "import a_module_that_is_not_there\n": ", line 1: ModuleNotFoundError: No module named 'a_module_that",
    "\nx = 1 / 0\n": ", line 2: ZeroDivisionError: division by zero",
    "\ndef f(:\n": ", line 2: SyntaxError: ",
    "import sys\nsys.exit('bye')\n": ", line 2: SystemExit: bye",
    GOOD.replace('"my-similarity"', '"rsa"'): ", line 9: 'rsa' is there already",
    GOOD.replace(
        '"my-similarity"', '"Size"'
    ): ", line 9: 'Size' is a predictor of gains; expected a name other than size, all, baseline",
    GOOD.replace('"mine"', '"Importance"'): ", line 3: 'Importance' is there already (case is ignored)",
    GOOD.replace('"mine"', '"roles"'): ", line 3: 'roles' is there already",
    GOOD.replace('"first"', '"mine"'): ", line 12: 'mine' is there already",
    GOOD.replace('"mine"', '"a/b"'): ", line 3: got 'a/b' as a name, expected name (at most 64 letters",
    GOOD.replace('of="relevance"', 'of="relevence"'): ", line 6: no table of measures 'relevence'; expected "
    "one of attention, relevance, ablation. Did you mean 'relevance'?",
    GOOD.replace('of="top"', 'of="fisher"'): ", line 9: no trait 'fisher'; expected one of paradigm, text",
}


@pytest.mark.parametrize("text", WRONG, ids=lambda text: WRONG[text][:40])
def test_what_is_wrong_with_a_plugin_is_said_with_key_file_and_line(plugin, text):
    other, path = plugin(f"{IMPORTS}@pruning_method('w', 'w')\ndef w(): ..."), plugin(text)
    with pytest.raises(ConfigError, match=rf"^plugins\.1: .*{re.escape(path + WRONG[text])}"):
        load(study(other, path))


def test_the_line_of_an_error_is_that_of_the_module_beside_it(plugin, tmp_path):
    (tmp_path / "broken_helper.py").write_text("\n\n{}['a']\n")
    path = plugin("import broken_helper\n")
    with pytest.raises(ConfigError, match=r"broken_helper\.py, line 3: KeyError: 'a'$"):
        load(study(path))


def test_missing_modules_and_files_are_named(plugin):
    path = plugin(GOOD)
    for name, told in {
        "no_such_module": "plugins.0: no_such_module: no module 'no_such_module' is installed, or in the",
        path[:-3].upper(): f" Did you mean '{path[:-3]}'?",
        path.replace("p", "q", 1): f"plugins.0: no file or folder 'q{path[1:]}' in ./",
        "measures/mine": "expected an import name, or the path of a file *.py or of a folder with kind.py.",
    }.items():
        with pytest.raises(ConfigError, match=re.escape(told)):
            load(study(name))


def test_a_file_with_the_name_of_a_module_is_refused(plugin, tmp_path):
    (tmp_path / "statistics.py").write_text(GOOD)
    with pytest.raises(ConfigError, match=r"plugins\.0: statistics\.py: 'statistics' is the module "):
        load(study("statistics.py"))


def test_folders_of_a_package_have_an_init(plugin, tmp_path):
    """Without it, its modules would not be found for the hash of its code."""
    folder = tmp_path / f"namespace{next(NUMBERS)}"
    folder.mkdir()
    (folder / "mine.py").write_text(GOOD)
    for name in (folder.name, f"{folder.name}.mine"):
        with pytest.raises(ConfigError, match=r"__init__\.py"):
            load(study(name))


@pytest.mark.parametrize("value", ["mine", {"a": 1}, [1], [None], 3])
def test_plugins_are_a_list_of_texts(value):
    config = study(plugins=value)
    assert plugged.named(config) == []
    try:
        load(config)
    except ConfigError as error:
        assert str(error).startswith("plugins")
    else:
        assert value == [1]  # a number may be text


def test_a_config_with_a_secret_imports_nothing(plugin, tmp_path):
    path = plugin("open('imported', 'w')\n" + GOOD)
    config = study(path, f"{TOKEN}.py")
    with pytest.raises(HeadspecError) as refused:
        preflight.load(config)
    assert "plugins.1: holds a password or token" in str(refused.value)
    assert TOKEN not in str(refused.value) + plugged.notice(config)
    assert plugged.notice(config).startswith(f"plugins: imports {path}, ")
    assert not (tmp_path / "imported").exists()


CHOOSE = (
    IMPORTS + "import numpy as np\n@pruning_method('w', 'w')\ndef w(importance, count, rng):\n    return "
)
FIXED = np.array([False, True, False])


def test_a_pruning_method_chooses_among_the_heads_that_can_close(plugin):
    top = "importance >= np.sort(importance, axis=None)[-count]"
    maps = {"a": np.arange(12.0).reshape(3, 4), "b": -np.arange(12.0).reshape(3, 4)}
    source = f"{plugin(CHOOSE + top)}:w"
    kept = chosen_by(Sets(["a", "b"], True), maps, 4 + 3, source, 0, FIXED)
    assert kept.dtype == bool and np.flatnonzero(kept[0]).tolist() == [4, 5, 6, 7, 9, 10, 11]
    assert np.flatnonzero(kept[1]).tolist() == [0, 1, 2, 4, 5, 6, 7]
    drawn = (
        f"{plugin(CHOOSE + 'rng.permuted(np.arange(importance.size) < count).reshape(importance.shape)')}:w"
    )
    of_seeds = [chosen_by(Sets(["a", "b"], True), maps, 7, drawn, seed, FIXED) for seed in (0, 0, 1)]
    assert (of_seeds[0] == of_seeds[1]).all() and (of_seeds[0] != of_seeds[2]).any()
    assert (of_seeds[0][0] != of_seeds[0][1]).any()


def test_the_former_name_of_pruning_methods_is_read_with_a_warning(plugin):
    path = plugin(
        GOOD.replace("import head_measure", "import way, head_measure").replace("@pruning_method", "@way")
    )
    with pytest.warns(FutureWarning, match="plugins.way is now plugins.pruning_method"):
        load(study(path, gates={"ways": ["first"], "sets": ["own"]}))
    assert PRUNING_METHODS["first"].function == f"{path}:first"


@pytest.mark.parametrize(
    ("returned", "told"),
    [
        ("None", "returned a NoneType, expected an array of shape (2, 4)"),
        ("importance[0] > 0", "returned shape (4,), expected an array of shape (2, 4)"),
        ("importance > 100", "returned 0 heads, expected 3 heads as bool"),
        ("importance", "returned an array of type float64, expected 3 heads as bool"),
    ],
)
def test_a_pruning_method_that_returns_something_else_is_named(plugin, returned, told):
    source = f"{plugin(CHOOSE + returned)}:w"
    with pytest.raises(ConfigError, match=re.escape(f"{source}: {told}")):
        chosen_by(Sets(["a"], False), {"a": np.ones((3, 4))}, 7, source, 0, FIXED)
