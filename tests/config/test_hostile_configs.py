"""Configs that nobody would write: each gives a study or a ConfigError, and runs no code."""

import copy
import functools
import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from headspec.config import reference
from headspec.config.loading import load, strict_yaml
from headspec.config.raw import MOST
from headspec.config.study import Study
from headspec.errors import ConfigError
from headspec.pipeline.figures.registry import FIGURES, names
from headspec.pipeline.layout import Layout
from support.configs import VALID, refused
from support.paths import ROOT
from support.running.studies import CONFIG, changed, study

STUDIES = [strict_yaml(path) for path in sorted((ROOT / "workflow" / "studies").glob("*.yaml"))]
NAMES = [
    "..", "../x", "a/../../x", "/etc/x", "a\0b", "a" * 300, "ａ", "а", "\u202ex", "con ", "a:b",
    "a*", "~", "-x", "",
]  # fmt: skip
TEXTS = st.text(st.characters(), max_size=12) | st.sampled_from(NAMES)
SCALARS = st.none() | st.booleans() | st.integers() | st.integers(10**20, 10**40) | st.floats() | TEXTS
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(SCALARS, v, max_size=3), max_leaves=6
)
KEYS = sorted(
    path.replace("<name>", "sst2" if path.startswith("tasks") else "minilm") + f".{key}"
    for path, section in reference.sections(reference.schema())
    for key in section["properties"]
)


@given(st.sampled_from(KEYS), VALUES)
@example("pruning.draw_width", 4e-243)  # its square is 0
def test_any_value_gives_a_study_or_a_config_error(key: str, value: Any) -> None:
    a_study_or_a_config_error(changed(VALID, {key.removeprefix("."): value}))


def a_study_or_a_config_error(config: dict[str, Any]) -> Study | None:
    try:
        return load(config)
    except ConfigError as error:
        assert all(": " in line for line in str(error).split("\n")), str(error)
        return None


EDITS = st.lists(
    st.tuples(st.sampled_from(["value", "key", "copy", "drop"]), st.integers(0, 10**6), VALUES),
    min_size=1,
    max_size=3,
)


def places(node: Any) -> list[tuple[Any, Any]]:
    """Every (container, key) of a nested config."""
    if not isinstance(node, (dict, list)):
        return []
    keys = list(node) if isinstance(node, dict) else range(len(node))
    return [place for key in keys for place in [(node, key), *places(node[key])]]


def mutated(config: dict[str, Any], edits: list[tuple[str, int, Any]]) -> dict[str, Any]:
    config = copy.deepcopy(config)
    for kind, where, value in edits:
        if not (found := places(config)):
            break
        node, key = found[where % len(found)]
        if kind == "drop":
            del node[key]
        elif kind == "key" and isinstance(node, dict) and not isinstance(value, (dict, list)):
            node[value] = node.pop(key)
        elif kind == "copy":
            other, place = found[(where // 7) % len(found)]
            node[key] = copy.deepcopy(other[place])
        else:
            node[key] = value
    return config


@settings(max_examples=6 * settings().max_examples)
@given(st.sampled_from([CONFIG, *STUDIES]), EDITS)
@example(CONFIG, [("value", 0, {"\n": 10**18 + 1})])
@example(CONFIG, [("key", 0, "\u2028")])
@pytest.mark.thorough
def test_a_mutated_study_is_a_study_inside_its_folder_or_a_config_error(config, edits):
    if study := a_study_or_a_config_error(mutated(config, edits)):
        assert_inside(study)


def assert_inside(study: Study) -> None:
    """Every path is one that a file system takes, in the folder of results."""
    layout = Layout(study)
    figures = names(layout, *{figure.category for figure in FIGURES})
    splits = [(task, name) for task, settings in study.tasks.items() for name in ("train", *settings.further)]
    made = [layout.result("tokens", model, *split) + ".parquet" for model in study.models for split in splits]
    made += layout.figures(figures) + layout.run_files([*study.runs, *study.iat_runs], "training.parquet")
    for path in [*made, layout.log("train")]:
        assert path.startswith("results/") and ".." not in Path(path).parts and "\0" not in path
        # while it is written, a file has a longer name
        assert max(len(part.encode()) for part in Path(path).parts) <= 255 - len("..1234567.tmp")


def renamed(place: str, name: Any) -> dict[str, Any]:
    """The tiny study with a name in place of one of its own, wherever it occurs."""
    tasks, bert = CONFIG["tasks"], CONFIG["models"]["bert"]
    own = {name: tasks["tone"]} | {key: tasks[key] for key in ("topic", "match")}
    return (
        CONFIG
        | {
            "study": {"study": name},
            "group": {"mixtures": CONFIG["mixtures"] | {"groups": {name: ["tone", "topic", "match"]}}},
            "model": {"models": {name: bert}},
            "further": {"tasks": tasks | {"tone": tasks["tone"] | {"further": {name: "test"}}}},
            "task": {"tasks": own, "mixtures": {"pairs": [name, "topic"], "single": ["match"]}},
        }[place]
    )


@pytest.mark.parametrize("place", ["study", "model", "task", "group", "further"])
def test_names_that_leave_the_folder_are_refused(place):
    load(renamed(place, "name"))
    for name in NAMES:
        with pytest.raises(ConfigError):
            load(renamed(place, name))


def test_the_longest_names_make_files_that_can_be_written():
    a, b = "a" * 64, "b" * 64
    tasks = {a: CONFIG["tasks"]["tone"], b: CONFIG["tasks"]["topic"]}
    iat = {"mixtures": [f"{a}+{b}"], "controls": ["random", "lora"]}
    iat |= {"alphas": [0.123456], "deltas": [0.0123456]}
    longest = study(
        study="s" * 64, models={"m" * 64: CONFIG["models"]["bert"]}, tasks=tasks,
        mixtures={"pairs": [a, b]}, methods=["tuned", "frozen", "iat", "atlas"], iat=iat,
    )  # fmt: skip
    assert_inside(longest)


ITSELF = copy.deepcopy(CONFIG)
ITSELF["tasks"]["tone"]["filter"] = {"x": ITSELF}
REPEATED: Any = functools.reduce(lambda value, _: [value] * 9, range(20), "x")


@pytest.mark.parametrize(
    ("config", "fragment"),
    [
        (ITSELF, "tasks.tone.filter: holds itself or too much; expected at most 50 levels."),
        (CONFIG | {"seeds": REPEATED}, "holds itself or too much; expected at most 10000 values."),
        (CONFIG | {"study": 0xF << 20_000}, "study: got a number of more than 18 digits"),
        (CONFIG | {0xF << 20_000: 1}, "?: got a number of more than 18 digits"),
        (CONFIG | {"study": "\ud800"}, "study: has characters that cannot be written"),
        (CONFIG | {"__use_yte__": True}, "__use_yte__: runs the Python code in a config"),
    ],
    ids=["itself", "repeated", "digits", "digits of a key", "surrogate", "program"],
)
def test_values_that_no_key_may_have(config, fragment):
    assert fragment in refused(config)


def doubled(inner: str) -> str:
    """Lines of YAML each of which holds the line above ten times; `inner` has places for their numbers."""
    return "\n".join(inner.format(i, f"*a{i - 1}" if i else "x") for i in range(40)) + "\n"


TEN = "[" + ", ".join(["{1}"] * 10) + "]"
#: YAML that is no config, and what is told of it after the name of the file; "..." stands for any text
YAML: dict[str, str] = dict.fromkeys(
    [
        "study: 2024-13-45", "study: !!int x", "study: !!float x", "study: !!bool x", "study: !!timestamp x",
        "a: &a [*a]", "a: &a {b: *a}", "[" * 3000, "? [1]\n: 2", "study: !!binary '%'", "!!set {a}",
        "study: 1" + "0" * 5000, "study: 0x" + "f" * 6000, "a: 1\n---\nb: 2", "<<: 5", "? &k a\n: *k",
        "%YAML 9.9\n---\na: 1", "study: !!omap [1]",
    ],
    "...",
) | {
    "a: [1\nb: 2\n": ": not YAML: while parsing a flow sequence...",
    "a:\n\tb: 1\n": ": not YAML:...line 2, column 1...",
    "": ": got nothing, expected keys and values...",
    "- a\n": ": got ['a'], expected keys and values...",
    "a: \0": ": not YAML: unacceptable character...",
} | dict.fromkeys(  # to go through these would take longer than the universe has been there
    [
        doubled("l{0}: &a{0} " + TEN),
        doubled("l{0}: &a{0} {{" + ", ".join(f"k{j}: {{1}}" for j in range(10)) + "}}"),
        doubled("- &a{0} " + TEN),
        doubled("? &a{0} " + TEN + "\n: 1"),
        doubled("l{0}: &a{0} {{k{0}: {1}, j{0}: {1}}}") + "<<: *a39\n",
    ],
    ": too large; expected at most 10000 values",
)  # fmt: skip


def written(folder: Path, text: str) -> Path:
    path = folder / "study.yaml"
    path.write_text(text)
    return path


@pytest.mark.parametrize("text", YAML, ids=range(len(YAML)))
def test_yaml_that_is_no_study(tmp_path, text):
    with pytest.raises(ConfigError) as caught:
        load(strict_yaml(written(tmp_path, text)))
    start, *rest = YAML[text].split("...")
    told = str(caught.value).removeprefix(str(tmp_path / "study.yaml"))
    assert told.startswith(start) and all(part in told for part in rest)


def test_yaml_is_read_as_it_is_unless_a_key_is_repeated(tmp_path):
    with pytest.raises(ConfigError, match="study.yaml: cannot be read"):
        strict_yaml(tmp_path / "study.yaml")
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ConfigError, match="pipe: not a file, but a folder, pipe, socket or device; expected"):
        strict_yaml(tmp_path / "pipe")
    text = "base: &base {a: 1}\nuse: {<<: *base, b: 2}\nlist: [{a: 1}, {a: 2}]\nseeds: [0, 1]\n"
    assert strict_yaml(written(tmp_path, text)) == yaml.safe_load(text)
    path = written(tmp_path, f"{text}map:\n  x: 1\n  x: 2\nseeds: [3]\nend:\n- {{1: x, '1': y}}\n")
    with pytest.raises(ConfigError) as caught:
        strict_yaml(path)
    assert str(caught.value).splitlines() == [
        f"{path}, line 7: map.x: already set on line 6; expected each key once",
        f"{path}, line 8: seeds: already set on line 4; expected each key once",
        f"{path}, line 10: end.0.1: already set on line 10; expected each key once",
    ]


@pytest.mark.thorough
def test_as_many_values_as_a_config_may_have(tmp_path):
    path = written(tmp_path, "".join(f"k{i}: {i}\n" for i in range(MOST - 1)))
    assert len(strict_yaml(path)) == MOST - 1


def test_yaml_runs_no_code(tmp_path):
    trace = tmp_path / "trace"
    for tag in ("python/object/apply:os.mkdir", "python/object/new:os.mkdir", "python/object:os.mkdir"):
        with pytest.raises(ConfigError, match="not YAML: could not determine a constructor"):
            strict_yaml(written(tmp_path, f"study: !!{tag} ['{trace}']"))
    assert not trace.exists()


@settings(max_examples=3 * settings().max_examples)
@given(st.text(st.sampled_from(list("ab:-[]{}&*!?|>'\"\n #%@,.0\t")), max_size=40))
def test_any_text_is_a_mapping_or_a_config_error(tmp_path_factory, text):
    path = tmp_path_factory.getbasetemp() / "any.yaml"
    path.write_text(text)
    try:
        assert isinstance(strict_yaml(path), dict)
    except ConfigError as error:
        assert str(path) in str(error)
