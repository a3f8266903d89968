"""The study config: what it accepts, and the messages for mistakes."""

import copy
import itertools
import math
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st

from headspec.config import reference
from headspec.config.loading import load, notices, strict_yaml
from headspec.config.raw import renamed
from headspec.config.sections.pruning import Pruning
from headspec.config.study import Study, plain
from headspec.errors import ConfigError, HeadspecError
from headspec.provenance import code_hash
from headspec.tasks import data
from headspec.tasks.kinds import kind
from support.running import studies

VALID = """
study: small
seeds: [0, 1]
models:
  minilm: {source: "package:carrier/model"}
tasks:
  sst2: {source: data/sst2, text_a: sentence, labels: {0: neg, 1: pos}, metrics: [accuracy, f1]}
  qnli: {source: data/qnli, text_a: question, text_b: sentence}
  agnews: {source: data/agnews}
  agpair: {pairs_of: agnews}
  stsb: {source: data/stsb, text_a: a, text_b: b, type: regression}
mixtures:
  pairs: [sst2, qnli]
  groups: {all: [sst2, qnli, agnews]}
  single: [stsb]
"""


def changed(changes: dict[str, Any] | None = None) -> dict[str, Any]:
    """The small valid config with some changes."""
    return studies.changed(yaml.safe_load(VALID), changes or {})


def message(config: dict[str, Any]) -> str:
    with pytest.raises(ConfigError) as caught:
        load(config)
    return str(caught.value)


#: a task on words alone
WORDS_TASK = {"tasks.pos": {"source": "data/pos", "type": "tags"}, "mixtures.single": ["pos"]}
#: changes, message after the key that is changed last, or all of it; "..." stands for any text
WRONG: list[tuple[dict[str, Any], str]] = [
    # keys
    ({"seed": [0]}, ": no key 'seed' in the config...Did you mean 'seeds'?"),
    ({"training.learnig_rate": 1}, ": no key...epochs,...Did you mean 'learning_rate'?"),
    ({"training.lr": 1}, ": no key 'lr'...Did you mean 'learning_rate'?"),
    ({"training.frozen.epoch": 1}, ": no key...Did you mean 'epochs'?"),
    ({"models.minilm.batch_size": 8}, ": no key...Did you mean 'training.batch_size'?"),
    ({"study": ...}, ": missing, expected name (at most 64 letters, digits, '.', '_', '-')."),
    ({"seeds": ...}, ": missing, expected non-empty list of integer >= 0."),
    ({"models": ...}, ": missing, expected non-empty mapping of name to section."),
    ({"mixtures": ...}, ": missing, expected section."),
    ({"models.minilm.source": ...}, "models.minilm: got neither, expected one of source and transformer."),
    # types and ranges
    ({"training.learning_rate": "fast"}, ": got 'fast', expected number > 0."),
    ({"training.learning_rate": math.inf}, ": got inf, expected number > 0."),
    ({"training.epochs": 2.5}, ": got 2.5, expected integer >= 1."),
    ({"training.epochs": True}, ": got True, expected integer >= 1."),
    ({"training.warmup": 1}, ": got 1, expected number >= 0 and < 1."),
    ({"training": None}, ": got nothing, expected section."),
    ({"precision": "bf61"}, ": got 'bf61', expected auto, fp32 or bf16. Did you mean 'bf16'?"),
    (
        {"methods": ["tuned", "frozn"]},
        ".1: got 'frozn', expected tuned, lora, frozen, prompted, iat, atlas, gates, probes or grouping. Did "
        "you mean 'frozen'?",
    ),
    ({"methods": "tuned"}, ": got 'tuned', expected non-empty list...Did you mean [tuned]?"),
    ({"figures.formats": ["svg", "pgn"]}, ".1: got 'pgn', expected svg, png or pdf. Did you mean 'png'?"),
    ({"pruning.fraction": 0}, ": got 0, expected number > 0 and <= 1."),
    ({"pruning.fractions": [0.1, 1.5]}, ".1: got 1.5, expected number > 0 and <= 1."),
    ({"pruning.fractions": [0.1, 0.3, 0.1]}, ": 0.1 is listed twice, expected each entry once."),
    ({"pruning.bottom": "top"}, ": got 'top', expected true or false."),
    (
        {"pruning": {"draw_examples": 20, "draw_width": 0.1}},
        ": draw_examples and draw_width are both given, expected one of them...",
    ),
    ({"importance.samples": 9}, ": got 9, expected integer >= 10."),
    ({"seeds": []}, ": got [], expected non-empty list of integer >= 0."),
    ({"seeds": "\n"}, ": got '\\n', expected non-empty list of integer >= 0. Did you mean [\\n]?"),
    ({"seeds": [0, -1]}, ".1: got -1, expected integer >= 0."),
    ({"seeds": [7, 1, "7"]}, ": 7 is listed twice, expected each entry once."),
    ({"models.minilm.sha256": "53xx1172"}, ": got '53xx1172', expected 8 to 64 hexadecimal..."),
    ({"tasks": []}, ": got [], expected non-empty mapping of name to section."),
    ({"tasks.sst2.label": None}, ": got nothing, expected text or non-empty list of text."),
    ({"tasks.sst2": None}, ": got nothing, expected section."),
    ({"tasks.agnews": {"source": ""}}, ".source: got '', expected package:..."),
    # names
    ({"study": "a/b"}, ": got 'a/b', expected name (at most 64 letters, digits, '.', '_', '-')."),
    ({"tasks.a+b": {"source": "x"}}, ": got 'a+b' as a name, expected name (at most 64..."),
    ({"mixtures.groups.sst2+qnli": ["sst2", "agnews"]}, ": got 'sst2+qnli' as a name..."),
    ({"tasks.None": {"source": "x"}}, ": reserved for tables...none, random, random_by_layer, mean..."),
    ({"tasks.SST2": {"source": "x"}}, ": same name as tasks.sst2 (case is ignored); expected another."),
    ({"models.MiniLM": {"source": "x"}}, ": same name as models.minilm (case is ignored); expected another."),
    ({"mixtures.groups.sst2": ["qnli", "agnews"]}, ": same name as tasks.sst2..."),
    # mixtures
    ({"mixtures.pairs": ["sst2", "qnil"]}, ".1: no task 'qnil'; expected one of sst2, qnli,...mean 'qnli'?"),
    ({"mixtures.groups.all": ["sst2", "x", "qnli"]}, ".1: no task 'x'; expected one of sst2,..."),
    ({"mixtures.single": ["stbs"]}, ".0: no task 'stbs'...Did you mean 'stsb'?"),
    ({"mixtures.pairs": ["sst2"]}, ": got ['sst2'], expected at least two tasks."),
    ({"mixtures.groups.all": ["sst2+qnli", "agnews"]}, ".0: no task 'sst2+qnli';...Did you mean sst2, qnli?"),
    ({"mixtures.pairs": ["all", "stsb"]}, ".0: no task 'all'; expected...Did you mean sst2, qnli, agnews?"),
    (
        {"mixtures.groups": ["sst2", "qnli"]},
        ": got ['sst2', 'qnli'], expected mapping...mean {<name>: ['sst2', 'qnli']}?",
    ),
    (
        {"mixtures.three": ["sst2", "qnli", "agnews"]},
        ": no key 'three' in mixtures;...Did you mean 'mixtures.groups.three'?",
    ),
    ({"mixtures.groups.all": ["sst2"]}, ": got ['sst2'], expected at least two tasks."),
    ({"mixtures.groups.all": []}, ": got [], expected at least two tasks."),
    ({"mixtures.groups.two": ["qnli", "sst2"]}, ": same tasks as 'sst2+qnli'; expected each mixture once."),
    ({"mixtures": {}}, ": nothing to train; expected tasks under pairs, groups or single."),
    # sources
    (
        {"tasks.qnli.source": "huggingface:nyu-mll/glue"},
        ": got 'huggingface:nyu-mll/glue', expected package:<...",
    ),
    ({"tasks.qnli.source": "hubb:nyu-mll/glue"}, ": got...Did you mean 'hub'?"),
    ({"tasks.qnli.source": "hub:glue"}, ": got 'hub:glue', expected hub:<owner>/<name>@<revision>."),
    ({"models.minilm.source": "hub:a/b@"}, ": got 'hub:a/b@', expected hub:<owner>/<name>@<revision>."),
    ({"models.minilm.source": "package:gt-all/m-l6"}, ": got...mean 'package:gt_all/m-l6'?"),
    # tasks
    ({"tasks.sst2.source": ...}, "tasks.sst2: got neither, expected one of source and pairs_of."),
    ({"tasks.sst2.metrics": ["acuracy"]}, ".0: got 'acuracy', expected accuracy, f1,...mean 'accuracy'?"),
    ({"tasks.sst2.metrics": ["f1_weighted"]}, ".0: got 'f1_weighted'...Did you mean 'f1'?"),
    ({"tasks.sst2.metrics": ["f1", "pearson"]}, ".1: got 'pearson' for type classification..."),
    (
        {"tasks.stsb.metrics": ["accuracy"]},
        ".0: got 'accuracy' for type regression, expected pearson, spearman.",
    ),
    ({"tasks.stsb.labels": {"0": "low", "1": "high"}}, ": got high, low for type regression..."),
    (
        {"tasks.sst2.labels": ["a", "b", "c"]},
        "tasks.sst2.metrics.1: got 'f1' for 3 classes, expected accuracy or matthews.",
    ),
    ({"tasks.sst2.labels": {0: "neg", 1: "neg"}}, ": got neg, expected at least two classes."),
    ({"tasks.sst2.labels": ["neg", "pos", "neg"]}, ": 'neg' is listed twice, expected each entry once."),
    ({"tasks.sst2.labels": {1: "pos", "1": "neg"}}, ": '1' is listed twice, expected each entry once."),
    ({"tasks.sst2.labels": 2}, ": got 2, expected mapping of name to text or list of text..."),
    ({"tasks.qnli.text_b": "question"}, ": got 'question', the column of text_a; expected another column."),
    ({"tasks.sst2.validation_split": "train"}, ": got 'train', the train_split; expected another, or null."),
    (
        {"tasks.sst2.subset": "sst2"},
        ": got 'sst2', expected none, because tasks.sst2.source is not on the hub.",
    ),
    (
        {"atlas.treebank": {"source": "x.conllu", "subset": "en_ewt"}},
        ".subset: got 'en_ewt', expected none...",
    ),
    # sections
    ({"models.minilm": "x/y"}, ": got 'x/y', expected section. Did you mean {source: x/y}?"),
    ({"atlas.treebank": "x.conllu"}, ": got 'x.conllu', expected section. Did you mean {source: x.conllu}?"),
    # pairs
    ({"mixtures.pairs": [["sst2", "qnli"]]}, ".0: got ['sst2', 'qnli'], expected text."),
    ({"tasks.agpair.source": "x"}, "tasks.agpair: got both, expected one of source and pairs_of."),
    ({"tasks.agpair.pairs_of": "agnew"}, ": got 'agnew', no task...Did you mean 'agnews'?"),
    ({"tasks.agpair.pairs_of": "agpair"}, ": got 'agpair', the task itself; expected sst2,..."),
    ({"tasks.again": {"pairs_of": "agpair"}}, ".pairs_of: got 'agpair', a task of pairs..."),
    ({"tasks.agpair.pairs_of": "qnli"}, ": got 'qnli', a task of pairs..."),
    ({"tasks.agpair.pairs_of": "stsb"}, ": got 'stsb', a regression task..."),
    ({"tasks.agpair.label": "topic"}, ": has no effect with pairs_of; expected it in tasks.agnews."),
    # similarity
    ({"similarity.measures": ["ckaa"]}, ".0: got 'ckaa', expected paradigm...mean 'cka'?"),
    ({"similarity.measures": ["cka"]}, ": nothing to correlate; expected at least three...got sst2, qnli."),
    ({"models.pooled": {"source": "x"}}, ": tables use this name for all models together; expected another."),
    ({"training": {"decoder_learning_rate": 0.001}}, ".decoder_learning_rate: not used; expected a t..."),
    ({"brain": {"stimuli": "a", "responses": "b"}}, ": not used; expected 'cnm' in similarity.measures."),
    # IAT
    ({"iat.mixtures": ["al"]}, ".0: no mixture 'al'; expected one of sst2+qnli, all. Did you mean 'all'?"),
    ({"iat.mixtures": ["stsb"]}, ".0: no mixture 'stsb'; expected one of sst2+qnli, all."),
    ({"iat.mixtures": ["qnli+sst2"]}, ".0: no mixture 'qnli+sst2'...mean 'sst2+qnli'?"),
    ({"iat": {"mixtures": ["all"], "delta": 0.3}}, ".delta: got 0.3, expected at most iat.reserve (0.2)."),
    ({"iat": {"mixtures": ["all"], "deltas": [0.1, 0.5]}}, ".deltas.1: got 0.5, expected at most..."),
    ({"iat.controls": ["as-relased"]}, ".0: got 'as-relased'...Did you mean 'as-released'?"),
    ({"iat": {"mixtures": ["all"], "peak": 0.0001}}, ".peak: not used; expected iat.rate: rewarmed..."),
    ({"iat": {"mixtures": ["all"], "rescorings": 5}}, ".rescorings: not used; expected 'rescored' in..."),
    (
        {"iat": {"mixtures": ["all"], "sweep_controls": True}},
        ".sweep_controls: not used; expected iat.alphas...",
    ),
    ({"iat": {"alpha": 0.5}}, ".mixtures: nothing to train; expected a mixture, because other keys of..."),
    (
        {"iat": {"mixtures": ["all"], "alphas": [0.5, 0.5000001]}},
        ".alphas: 0.5 and 0.5000001 are 0.5 in names of files, expected one.",
    ),
    (
        {"iat": {"mixtures": ["all"], "deltas": [0.05, 0.1000001]}},
        ".deltas.1: got 0.1000001, whose runs have the name of 0.1; expected another.",
    ),
    ({"gates.kept": [0.3, 0.5, 0.3000000001]}, ": 0.3 and 0.3000000001 are 0.3 in names of files..."),
    ({"gates.penalties": [1e-09, 1.0000001e-09]}, ": 1e-09 and 1.0000001e-09 are 1e-09 in names..."),
    ({"transfer": {"draws": 3}}, ".tasks: no task; expected one, because other keys of transfer are set."),
    (
        {"transfer": {"tasks": ["stsb"]}},
        ".methods: got single, tuned, iat, expected a mixture under iat.mixtures to train on.",
    ),
    ({"methods": ["tuned", "iat"]}, "iat.mixtures: nothing to train; expected a mixture, because methods..."),
    (
        {"methods": ["frozen", "iat"], "iat.mixtures": ["all"]},
        "methods: got frozen, iat, expected tuned as well, because IAT continues tuned runs.",
    ),
    # LoRA
    (
        {"training.lora.rank": 8},
        "training.lora: not used; expected 'lora' in methods, whose settings they are.",
    ),
    (
        {"methods": ["tuned", "lora"], "models.minilm.weights": "random"},
        ": got 'random', expected pretrained weights, because methods has 'lora', whose adapters are...",
    ),
    (
        {"methods": ["tuned", "lora"], "iat": {"mixtures": ["all"], "controls": ["random", "lora"]}},
        ".controls.1: got 'lora', whose runs have the name of the method 'lora'; expected a study with...",
    ),
    # gates, atlas and probes
    (
        {"gates": {"penalties": [0.1], "pruning_methods": ["subset"]}},
        ".penalties: not used; expected one of l0, static, dynamic in gates.pruning_methods.",
    ),
    ({"gates.penalties": [0.1, 0.02]}, ".1: got 0.02, the penalty; expected others."),
    ({"gates.penalties": [0.02000000001]}, ".0: got 0.02, the penalty; expected others."),
    (
        {"gates.attention": ["encoder", "crosss"]},
        ".1: got 'crosss', expected encoder, decoder or cross. Did you mean 'cross'?",
    ),
    (
        {"gates.attention": ["encoder"], "atlas.rankings": ["importance", "l0"]},
        ".1: got 'l0', which ranks all heads; expected none of these with gates.attention.",
    ),
    (
        {"pruning.fraction": 1, "atlas.rankings": ["l0", "subset"]},
        ".1: got 'subset', gates that keep the heads which pruning.fraction leaves; expected that to be...",
    ),
    ({"atlas.rankings": ["importanse"]}, ".0: got 'importanse'...Did you mean 'importance'?"),
    ({"atlas.mixtures": ["al"]}, ".0: no mixture 'al'...Did you mean 'all'?"),
    (
        {"atlas.rankings": ["importance"], "gates.pruning_methods": ["mean_ablation"]},
        ".0: got 'mean_ablation', expected it in atlas.rankings, which measures it.",
    ),
    ({"gates.pruning_methods": ["subsets"]}, ".0: got 'subsets'...Did you mean 'subset'?"),
    ({"gates.keep_models": ["subste"]}, ".0: got 'subste'...Did you mean 'subset'?"),
    (
        {"gates": {"pruning_methods": ["subset"], "keep_models": ["random"]}},
        ".keep_models.0: got 'random', expected it in gates.pruning_methods as well.",
    ),
    ({"gates.kept": [1.0]}, ".0: got 1.0, expected number > 0 and < 1."),
    ({"gates.mixtures": ["al"]}, ".0: no mixture 'al'...Did you mean 'all'?"),
    ({"gates.penalty": 0}, ": got 0, expected number > 0."),
    ({"gates.source": "random"}, ": got 'random', expected importance, rescored..."),
    (
        {"gates": {"pruning_methods": ["importance"], "source": "l0"}},
        ".source: not used; expected pretrained, fresh in gates.pruning_methods, which keep its heads.",
    ),
    (
        WORDS_TASK | {"probes.methods": ["tuned", "iat"]},
        ".1: got 'iat', expected a mixture under iat.mixtures.",
    ),
    (
        WORDS_TASK | {"probes.methods": ["even"]},
        ".0: got 'even', expected it in iat.controls, and a mixture under iat.mixtures.",
    ),
    # brain
    ({"brain": {"stimuli": "a"}}, ".responses: missing, expected text."),
    (
        {"mixtures.pairs": ["sst2", "qnli", "agnews"], "similarity.measures": ["cka", "cnm"]},
        ".1: 'cnm' needs brain responses; expected a section brain.",
    ),
    # names that have changed
    (
        {"similarity": {"sentences": "a.txt", "probe": "b.txt"}},
        ".probe: got both this and similarity.sentences, its new name; expected the new one.",
    ),
]


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=[str(changes) for changes, _ in WRONG])
def test_one_mistake_gives_one_line(changes: dict[str, Any], told: str) -> None:
    text, key = message(changed(changes)), [*changes][-1]
    words = re.escape(key + told if told[0] in ":." else told).replace(re.escape("..."), ".*")
    assert re.fullmatch(words, text), text


@pytest.mark.parametrize("key", renamed.KEYS)
def test_an_old_key_is_read_with_a_warning(key: str) -> None:
    section, _, old = key.partition(".")
    new = renamed.KEYS[key]
    node = reference.schema()["properties"][section]["properties"][new]
    value = node["default"] or "x"
    assert load({**changed(), section: {old: value}}) == load({**changed(), section: {new: value}})
    assert notices(changed({f"{section}.{old}": value})) == [
        f"{key} is now '{section}.{new}'; the old name will be refused by the next version"
    ]


def test_the_former_scope_of_gates_is_read() -> None:
    assert load(changed({"gates": {"sets": ["own"]}})).gates.scope == ["per_task"]


@pytest.mark.parametrize(("old", "new"), [("sqroot", "sqrt"), (["sqroot", "annealed"], ["sqrt", "annealed"])])
def test_an_old_value_is_read_with_a_warning(old: Any, new: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    key = "iat.samplings" if isinstance(old, list) else "training.sampling"
    monkeypatch.setattr(renamed, "VALUES", {key: {"sqroot": "sqrt"}})
    first, second = (load(changed({"iat.mixtures": ["all"], key: value})) for value in (old, new))
    assert first == second
    assert notices(changed({key: old})) == [
        f"{key}: 'sqroot' is now 'sqrt'; the old name will be refused by the next version"
    ]


def test_all_mistakes_are_reported_at_once() -> None:
    config = changed(
        {
            "seeds": [],
            "training.epochs": 0,
            "tasks.sst2.metrics": ["acc"],
            "mixtures.pairs": ["sst2", "qnil"],
            "tasks.agpair.pairs_of": "qnli",
        }
    )
    keys = [line.split(":")[0] for line in message(config).splitlines()]
    assert keys == [
        "seeds", "tasks.sst2.metrics.0", "training.epochs", "mixtures.pairs.1", "tasks.agpair.pairs_of"
    ]  # fmt: skip


def test_keys_that_can_be_read_are_compared_beside_those_that_cannot() -> None:
    """What contradicts a default, which stands in for a key that cannot be read, is not told."""
    config = changed(
        {
            "tasks.agnews": "data/agnews",
            "tasks.stsb.type": "regresion",
            "tasks.stsb.metrics": ["pearson"],
            "mixtures.groups.all": "sst2",
            "mixtures.single": ["stbs"],
            "iat.mixtures": ["all", "al"],
        }
    )
    keys = [line.split(":")[0] for line in message(config).splitlines()]
    assert keys == [
        "tasks.agnews", "tasks.stsb.type", "mixtures.groups.all", "mixtures.single.0", "iat.mixtures.1"
    ]  # fmt: skip


@pytest.mark.parametrize("config", [None, {}])
def test_an_empty_config_reports_the_required_keys(config: Any) -> None:
    keys = [line.split(":")[0] for line in message(config).splitlines()]
    assert keys == ["study", "seeds", "models", "tasks", "mixtures"]


KEYS = sorted(
    path.replace("<name>", "sst2" if path.startswith("tasks") else "minilm") + f".{key}"
    for path, section in reference.sections(reference.schema())
    for key in section["properties"]
)
WORDS = st.text(st.characters(exclude_categories=["C", "Z"]))
SCALARS = st.none() | st.booleans() | st.integers() | st.floats() | WORDS | st.sampled_from(["sst2", "qnli"])
VALUES = st.recursive(
    SCALARS, lambda v: st.lists(v, max_size=3) | st.dictionaries(SCALARS, v, max_size=3), max_leaves=5
)


@given(st.sampled_from(KEYS), VALUES)
@example("pruning.draw_width", 4e-243)  # its square is 0
def test_any_value_gives_a_study_or_a_config_error(key: str, value: Any) -> None:
    try:
        assert isinstance(load(changed({key.removeprefix("."): value})), Study)
    except ConfigError as error:
        assert all(": " in line for line in str(error).split("\n")), str(error)


def test_a_key_that_is_not_text() -> None:
    assert message(yaml.safe_load(VALID + "3: 1\n")).startswith("3: no key '3' in the config; it has study,")
    assert message(changed({"training": {3: 1}})).startswith(
        "training.3: no key '3' in training; it has epochs,"
    )


@pytest.mark.parametrize("metrics", [["f1"], ["accuracy", "f1"]])
def test_f1_asks_which_class_it_is_of(metrics: list[str]) -> None:
    config = changed({"tasks.sst2.metrics": metrics})
    config["tasks"]["sst2"].pop("labels", None)
    assert "tasks.sst2.labels: missing, expected a list of the two classes" in message(config)
    config["tasks"]["sst2"]["labels"] = ["not_equivalent", "equivalent"]
    task = load(config).tasks["sst2"]
    assert data.reader(task.type).classes(task, pd.Series(["equivalent"])) == ["not_equivalent", "equivalent"]


def test_a_name_that_yaml_reads_as_a_truth_value() -> None:
    config = changed()
    config["tasks"] |= yaml.safe_load("{on: {source: x}}")
    assert message(config).startswith("tasks.True: got True as a name, expected name (at most 64")


@pytest.mark.parametrize(
    ("key", "written"),
    [
        ("study", "on"),
        ("tasks.sst2.text_a", "yes"),
        ("tasks.sst2.source_language", "no"),
        ("tasks.sst2.further", "{a: off}"),
        ("tasks.sst2.further", "{off: a}"),
        ("tasks.sst2.prompt", "No"),
        ("tasks.sst2.answers", "{good: Yes, bad: No}"),
        ("mixtures.single", "[sst2, on]"),
        ("mixtures.groups", "{no: [sst2, sst2]}"),
        ("models", "{off: {source: x}}"),
    ],
)
def test_a_truth_value_in_place_of_text_is_to_be_quoted(key: str, written: str) -> None:
    assert "YAML reads yes, no, on and off as true and false; quote them" in message(
        changed({key: yaml.safe_load(written)})
    )


@pytest.mark.parametrize(
    ("labels", "wrong"), [("[yes, no]", ""), ("[good, bad]", "true"), ("['yes', 'no']", "yes")]
)
def test_answers_take_truth_values_as_labels_do(labels: str, wrong: str) -> None:
    prompt = {"prompt": "{text_a}?", "answers": yaml.safe_load("{yes: ' y', no: ' n'}")}
    config = changed({"tasks.sst2": {"source": "x", "labels": yaml.safe_load(labels), **prompt}})
    if not wrong:
        assert load(config).tasks["sst2"].answers == {"true": " y", "false": " n"}
        return
    assert "tasks.sst2.answers.true: no class 'true'" in message(config)
    assert ("quote them" in message(config)) == (wrong == "yes")


def test_a_long_value_is_shortened() -> None:
    text = message(changed({"training.epochs": "x " * 1000}))
    assert "training.epochs: got 'x x" in text
    assert len(text) < 150


def test_numbers_may_be_text() -> None:
    config = changed({"training.learning_rate": "2e-5", "importance.samples": "1e4", "seeds": ["3", 1.0]})
    study = load(config)
    assert study.training.learning_rate == 2e-5
    assert study.importance.samples == 10_000
    assert study.seeds == [3, 1]


@pytest.mark.parametrize(
    ("written", "labels"),
    [
        ("{0: neg, 1: pos}", {"0": "neg", "1": "pos"}),
        ("{true: pos, false: neg}", {"true": "pos", "false": "neg"}),
        ("{0: no, 1: yes}", {"0": "false", "1": "true"}),
        ("[neg, pos]", {"neg": "neg", "pos": "pos"}),
        ("[1, 0]", {"1": "1", "0": "0"}),
        ("null", None),
    ],
)
def test_labels(written: str, labels: dict[str, str] | None) -> None:
    labelled = changed({"tasks.sst2.labels": yaml.safe_load(written), "tasks.sst2.metrics": ["accuracy"]})
    task = load(labelled).tasks["sst2"]
    assert task.labels == labels
    assert list(task.labels or ()) == list(labels or ())  # the order of the classes


def test_names_may_be_numbers() -> None:
    study = load(changed({"tasks.2020": {"source": "x"}, "mixtures.single": [2020], "study": 7}))
    assert study.study == "7"
    assert [run.path for run in study.runs][-1] == "minilm/2020/single/seed1"
    config = changed({"mixtures.single": [2020]})
    config["tasks"][2020] = {"source": "x"}
    assert (
        load(config).runs == load(changed({"tasks.2020": {"source": "x"}, "mixtures.single": ["2020"]})).runs
    )


def test_matthews_takes_any_number_of_classes_and_f1_two() -> None:
    load(changed({"tasks.sst2.labels": ["a", "b", "c"], "tasks.sst2.metrics": ["matthews"]}))
    load(changed({"tasks.agpair.metrics": ["f1", "accuracy"]}))
    load(changed({"tasks.sst2.labels": {"0": "neg", "1": "pos", "2": "pos"}}))


@pytest.mark.parametrize(
    "source",
    ["package:a", "package:a.b/c.csv", "hub:a/b", "hub:a/b@refs/pr/4", "../data/x", "/d/a:b", "d.csv"],
)
def test_sources(source: str) -> None:
    assert load(changed({"tasks.qnli.source": source})).tasks["qnli"].source == source


def test_default_metrics() -> None:
    tasks = load(changed()).tasks
    assert kind(tasks["qnli"]).all_metrics(tasks["qnli"]) == ["accuracy"]
    assert kind(tasks["stsb"]).all_metrics(tasks["stsb"]) == ["spearman", "pearson"]


def test_runs() -> None:
    study = load(changed({"methods": ["tuned", "frozen"]}))
    mixed = [f"{mixture}/{method}" for mixture in ("sst2+qnli", "all") for method in ("tuned", "frozen")]
    expected = [f"minilm/{run}/seed{seed}" for run in [*mixed, "stsb/single"] for seed in (0, 1)]
    assert [run.path for run in study.runs] == expected
    assert study.runs[4].tasks == ("sst2", "qnli", "agnews")
    assert study.runs[-1].tasks == ("stsb",)


def test_runs_of_iat() -> None:
    """Each is compared with the plain training that it continues; the runs of IAP stay the same."""
    section = {"mixtures": ["all"], "controls": ["random", "lora"], "alphas": [0.3, 0.5], "deltas": [0.2]}
    study = load(changed({"iat": section | {"samplings": ["sqrt"]}, "methods": ["tuned", "iat"]}))
    assert {(v.method, v.base, v.sampling, v.heads, v.alpha, v.delta) for v in study.variants} == {
        ("tuned", "tuned", "proportional", None, None, None),
        ("iat", "tuned", "proportional", "top", 0.3, 0.1),
        ("iat-random", "tuned", "proportional", "random", 0.3, 0.1),
        ("lora", "tuned", "proportional", "lora", 0.3, 0.1),
        ("iat-alpha0.3-delta0.2", "tuned", "proportional", "top", 0.3, 0.2),
        ("iat-alpha0.5-delta0.1", "tuned", "proportional", "top", 0.5, 0.1),
        ("iat-alpha0.5-delta0.2", "tuned", "proportional", "top", 0.5, 0.2),
        ("tuned-sqrt", "tuned-sqrt", "sqrt", None, None, None),
        ("iat-sqrt", "tuned-sqrt", "sqrt", "top", 0.3, 0.1),
    }
    assert study.runs == load(changed()).runs
    alone = [run.mixture for run in study.iat_runs if run.method == "single" and run.seed == 0]
    assert alone == ["sst2", "qnli", "agnews"]
    assert len(study.iat_runs) == 2 * (9 + 3) == len({run.path for run in study.iat_runs})


def test_controls_of_a_sweep_and_rewarmed_ends() -> None:
    """Plain training does not depend on alpha; each delta and sampling has rewarmed rates of its own."""
    section = {"mixtures": ["all"], "controls": ["lora", "no-dropout"], "alphas": [0.5], "deltas": [0.2]}
    section |= {"sweep_controls": True, "rate": "rewarmed", "samplings": ["sqrt"]}
    study = load(changed({"iat": section, "methods": ["tuned", "iat"]}))
    points = [(0.3, 0.1), (0.3, 0.2), (0.5, 0.1), (0.5, 0.2)]
    names = ["", "-alpha0.3-delta0.2", "-alpha0.5-delta0.1", "-alpha0.5-delta0.2"]
    owning = {(h + n, h, *at) for h in ("iat", "lora") for n, at in zip(names, points, strict=True)}
    deltas = ("", 0.1), ("-delta0.2", 0.2)
    plain = {(h + n, h, None, d) for h in ("no-dropout", "rewarmed") for n, d in deltas}
    sampled = {("iat-sqrt", "iat", 0.3, 0.1), ("rewarmed-sqrt", "rewarmed", None, 0.1)}
    bases = {("tuned", None, None, None), ("tuned-sqrt", None, None, None)}
    found = {(v.method, "iat" if v.heads == "top" else v.heads, v.alpha, v.delta) for v in study.variants}
    assert found == owning | plain | sampled | bases


@pytest.mark.parametrize(
    ("measures", "alone"), [(["text"], ["stsb"]), (["cka"], ["sst2", "qnli", "agnews", "stsb"])]
)
def test_measures_that_compare_models_train_each_task_alone(measures: list[str], alone: list[str]) -> None:
    study = load(
        changed(
            {
                "mixtures.pairs": ["sst2", "agnews", "qnli"],
                "mixtures.groups": {},
                "similarity.measures": measures,
            }
        )
    )
    assert [run.mixture for run in study.runs if run.method == "single" and run.seed == 0] == alone


@given(st.permutations(["sst2", "qnli", "agnews", "agpair", "stsb"]), st.integers(2, 5))
def test_mixtures_are_named_in_the_order_of_the_tasks(order: list[str], size: int) -> None:
    study = load(changed({"mixtures.pairs": order[:size], "mixtures.groups.all": order}))
    chosen = [task for task in study.tasks if task in order[:size]]
    pairs = {f"{a}+{b}": (a, b) for a, b in itertools.combinations(chosen, 2)}
    assert study.mixture_tasks == pairs | {"all": tuple(study.tasks)}
    assert len({run.path for run in study.runs}) == len(study.runs) == 2 * (math.comb(size, 2) + 1 + 1)


def test_loading_keeps_the_config_unchanged_and_accepts_a_written_study() -> None:
    config = changed({"training.learning_rate": "2e-5"})
    before = copy.deepcopy(config)
    study = load(config)
    assert config == before
    assert (
        load({**plain(study), "tasks": {k: v.model_dump(exclude_unset=True) for k, v in study.tasks.items()}})
        == study
    )


# -- YAML ----------------------------------------------------------------------------------------


def written(folder: Path, text: str) -> Path:
    (folder / "config.yaml").write_text(text, encoding="utf-8")
    return folder / "config.yaml"


def test_strict_yaml_reads_what_yaml_reads(tmp_path: Path) -> None:
    merged = "base: &base {a: 1}\nuse: {<<: *base, b: 2}\nlist: [{a: 1}, {a: 2}]\n"
    for text in (VALID, merged):
        assert strict_yaml(written(tmp_path, text)) == yaml.safe_load(text)


def test_repeated_keys(tmp_path: Path) -> None:
    text = (
        VALID.replace("  single: [stsb]", "  pairs: [sst2, agnews]") + "seeds: [3]\nlist:\n- {1: x, '1': y}\n"
    )
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        strict_yaml(path)
    assert str(caught.value).splitlines() == [
        f"{path}, line 15: mixtures.pairs: already set on line 13; expected each key once",
        f"{path}, line 16: seeds: already set on line 3; expected each key once",
        f"{path}, line 18: list.0.1: already set on line 18; expected each key once",
    ]


@pytest.mark.parametrize(
    ("text", "fragment"),
    [
        ("a: [1\nb: 2\n", "not YAML: while parsing a flow sequence"),
        ("a:\n\tb: 1\n", "line 2, column 1"),
        ("", "got nothing, expected keys and values"),
        ("- a\n", "got ['a'], expected keys and values"),
        ("a: \x00", "not YAML: unacceptable character"),
    ],
)
def test_files_that_are_not_a_config(tmp_path: Path, text: str, fragment: str) -> None:
    path = written(tmp_path, text)
    with pytest.raises(ConfigError) as caught:
        strict_yaml(path)
    assert str(caught.value).startswith(str(path))
    assert fragment in str(caught.value)


def test_a_missing_config_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="none.yaml: cannot be read"):
        strict_yaml(tmp_path / "none.yaml")


# -- the reference -------------------------------------------------------------------------------


def test_every_key_of_every_section_is_in_the_reference() -> None:
    sections = dict(reference.sections(reference.schema()))
    assert set(sections[""]["properties"]) == set(Study.model_fields)
    assert {"models.<name>", "tasks.<name>", "training.frozen"} <= set(sections)
    rows = [line for line in reference.markdown().splitlines() if line.startswith("- ")]
    assert len(rows) == sum(len(section["properties"]) for section in sections.values())
    titles = {f"#{re.sub('[.<>]', '', name)}" for name in sections}
    for row in rows:
        link = re.fullmatch(r"- \[`\w+`\]\((#\w+)\)", row)
        assert link[1] in titles if link else re.fullmatch(r"- `\w+` \(.+?\): .+", row), row


def test_the_documented_defaults_are_the_defaults() -> None:
    assert "- `learning_rate` (number > 0; `2e-05`): peak learning rate" in reference.markdown()
    study = load(changed())
    for name, section in reference.sections(reference.schema()):
        if name and "<name>" not in name and name not in ("mixtures", "brain", "atlas.treebank"):
            part = study
            for key in name.split("."):
                part = getattr(part, key)
            documented = {key: node["default"] for key, node in section["properties"].items()}
            assert documented == part.model_dump(), name


def test_the_reference_in_a_file_is_replaced(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text(f"before\n{reference.BEGIN}\nold\n{reference.END}\nafter\n")
    library = str(code_hash.LIBRARY.parent)
    command = [sys.executable, "-m", "headspec", "reference", str(path)]
    subprocess.run(command, check=True, env={"PYTHONPATH": library})
    text = path.read_text()
    assert text == f"before\n{reference.BEGIN}\n{reference.markdown()}{reference.END}\nafter\n"
    assert reference.updated(text) == text
    assert reference.updated(text.replace("`2e-05`", "`3e-05`")) == text


def test_a_file_without_the_markers_is_refused() -> None:
    with pytest.raises(HeadspecError, match="config reference: begin"):
        reference.updated(f"{reference.END}\n{reference.BEGIN}\n")


@pytest.mark.parametrize("width", [0.02, 0.1, 0.3])
@pytest.mark.parametrize("draws", [2, 10, 100])
def test_draws_of_a_wanted_width_have_just_enough_examples(width, draws):
    def widest(examples):  # interval of the mean over all draws at an accuracy of a half
        return 2 * 1.96 * (0.25 / (draws * examples)) ** 0.5

    pruning = Pruning(draws=draws, draw_width=width)
    assert widest(pruning.draw_examples) <= width < widest(pruning.draw_examples - 1 or 0.1)
