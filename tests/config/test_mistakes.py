"""Mistakes in a study's config: a line for each, with the key, its value, and what was expected."""

import math
import re
from typing import Any

import pytest

from headspec.config.loading import load
from support.configs import VALID, refused
from support.running.studies import changed

#: a task on words alone
WORDS_TASK = {"tasks.pos": {"source": "data/pos", "type": "tags"}, "mixtures.single": ["pos"]}
THREE = {"mixtures.pairs": ["sst2", "qnli", "agnews"]}
#: changes, message after the key that is changed last, or all of it; "..." stands for any text
WRONG: list[tuple[dict[str, Any], str]] = [
    # keys
    ({"seed": [0]}, ": no key 'seed' in the config...Did you mean 'seeds'?"),
    ({"training.lr": 1}, ": no key 'lr' in training; it has epochs,...Did you mean 'learning_rate'?"),
    ({"training.frozen.epoch": 1}, ": no key...Did you mean 'epochs'?"),
    ({"training.precision": "fp32"}, ": no key...'precision' is a key of the config itself."),
    ({"models.minilm.batch_size": 8}, ": no key...Did you mean 'training.batch_size'?"),
    ({"mixtures.three": ["sst2", "qnli", "agnews"]}, ": no key 'three' in mixtures; it has pairs, groups..."),
    ({"training": {3: 1}}, ".3: no key '3' in training; it has epochs,..."),
    ({"gates.ways": ["importance"]}, ": no key 'ways' in gates; it has...pruning_methods,..."),  # of 0.2
    ({"study": ...}, ": missing, expected name (at most 64 letters, digits, '.', '_', '-')."),
    ({"seeds": ...}, ": missing, expected non-empty list of integer >= 0."),
    ({"models": ...}, ": missing, expected non-empty mapping of name to section."),
    ({"models.minilm.source": ...}, "models.minilm: got neither, expected one of source and transformer."),
    # types and ranges
    ({"training.learning_rate": "fast"}, ": got 'fast', expected number > 0."),
    ({"training.learning_rate": math.inf}, ": got inf, expected number > 0."),
    ({"training.epochs": 2.5}, ": got 2.5, expected integer >= 1."),
    ({"training.epochs": True}, ": got True, expected integer >= 1."),
    ({"training.warmup": 1}, ": got 1, expected number >= 0 and < 1."),
    ({"training": None}, ": got nothing, expected section."),
    ({"precision": "bf61"}, ": got 'bf61', expected auto, fp32 or bf16. Did you mean 'bf16'?"),
    ({"methods": ["tuned", "frozn"]}, ".1: got 'frozn', expected tuned, lora,...Did you mean 'frozen'?"),
    ({"methods": "tuned"}, ": got 'tuned', expected non-empty list...Did you mean [tuned]?"),
    ({"pruning.fractions": [0.1, 1.5]}, ".1: got 1.5, expected number > 0 and <= 1."),
    ({"pruning.fractions": [0.1, 0.3, 0.1]}, ": 0.1 is listed twice, expected each entry once."),
    ({"pruning.ablation": "means"}, ": got 'means', expected zero, mean or resample...mean 'mean'?"),
    ({"pruning.bottom": "top"}, ": got 'top', expected true or false."),
    ({"pruning": {"draw_examples": 9, "draw_width": 0.1}},
     ": draw_examples and draw_width are both given, expected one of them."),
    ({"seeds": 3}, ": got 3, expected non-empty list of integer >= 0. Did you mean [3]?"),
    ({"training.warmup": "6"}, ": got 6.0, expected number >= 0 and < 1."),
    ({"seeds": []}, ": got [], expected non-empty list of integer >= 0."),
    ({"seeds": "\n"}, ": got '\\n', expected non-empty list of integer >= 0. Did you mean [\\n]?"),
    ({"seeds": [7, 1, "7"]}, ": 7 is listed twice, expected each entry once."),
    ({"seeds": [2**31]}, ".0: got 2147483648, expected at most 2147483647."),
    ({"models.minilm.sha256": "53xx1172"}, ": got '53xx1172', expected 8 to 64 hexadecimal..."),
    ({"tasks.sst2.label": None}, ": got nothing, expected text or non-empty list of text."),
    ({"tasks.agnews": {"source": ""}}, ".source: got '', expected package:..."),
    # names
    ({"study": "a/b"}, ": got 'a/b', expected name (at most 64 letters, digits, '.', '_', '-')."),
    ({"tasks.a+b": {"source": "x"}}, ": got 'a+b' as a name, expected name (at most 64..."),
    ({"tasks.None": {"source": "x"}}, ": reserved for tables...none, random, random_by_layer, mean."),
    ({"tasks.SST2": {"source": "x"}}, ": same name as tasks.sst2 (case is ignored); use another name."),
    ({"models.MiniLM": {"source": "x"}}, ": same name as models.minilm (case is ignored); use another name."),
    ({"mixtures.groups.sst2": ["qnli", "agnews"]}, ": same name as tasks.sst2..."),
    ({"models.pooled": {"source": "x"}}, ": tables use this name for all models together; use another name."),
    # words that YAML reads as true and false
    ({"study": True},
     ": got True, expected...YAML reads yes, no, on and off as true and false; quote them..."),
    ({"tasks.sst2.prompt": False}, ": got False...quote them..."),
    ({"tasks.sst2.further": {"a": False}}, ".a: got False...quote them..."),
    ({"tasks.sst2.further": {False: "a"}}, ".False: got False as a name...quote them..."),
    ({"mixtures.single": ["sst2", True]}, ".1: got True...quote them..."),
    # mixtures
    ({"mixtures.pairs": ["sst2", "qnil"]}, ".1: no task 'qnil'; expected one of sst2, qnli,...mean 'qnli'?"),
    ({"mixtures.single": ["stbs"]}, ".0: no task 'stbs'...Did you mean 'stsb'?"),
    ({"mixtures.pairs": ["sst2"]}, ": got ['sst2'], expected at least two tasks."),
    ({"mixtures.pairs": ["all", "stsb"]}, ".0: no task 'all'; expected...Did you mean sst2, qnli, agnews?"),
    ({"mixtures.pairs": [["sst2", "qnli"]]}, ".0: got ['sst2', 'qnli'], expected text."),
    ({"mixtures.groups": ["sst2"]}, ": got ['sst2'], expected mapping of name to list of text."),
    ({"mixtures.groups.all": ["sst2+qnli", "agnews"]}, ".0: no task 'sst2+qnli';...Did you mean sst2, qnli?"),
    ({"mixtures.groups.all": []}, ": got [], expected at least two tasks."),
    ({"mixtures.groups.two": ["qnli", "sst2"]}, ": same tasks as 'sst2+qnli'; expected each mixture once."),
    ({"mixtures": {}}, ": nothing to train; expected tasks under pairs, groups or single."),
    # sources
    ({"models.minilm": "x/y"}, ": got 'x/y', expected section. Did you mean {source: x/y}?"),
    ({"atlas.treebank": "x.conllu"}, ": got 'x.conllu', expected section. Did you mean {source: x.conllu}?"),
    ({"tasks.qnli.source": "hubb:a/b"}, ": got 'hubb:a/b', expected package:<...Did you mean 'hub'?"),
    ({"tasks.qnli.source": "hub:glue"}, ": got 'hub:glue', expected hub:<owner>/<name>@<revision>."),
    ({"models.minilm.source": "hub:a/b@"}, ": got 'hub:a/b@', expected hub:<owner>/<name>@<revision>."),
    ({"models.minilm.source": "package:gt-all/m-l6"}, ": got...mean 'package:gt_all/m-l6'?"),
    ({"tasks.sst2.subset": "a"}, ": got 'a', but tasks.sst2.source is not on the hub; remove it."),
    ({"atlas.treebank": {"source": "x.conllu", "subset": "a"}},
     ".subset: got 'a', but atlas.treebank.source is not on the hub; remove it."),
    # tasks
    ({"tasks.sst2.source": ...}, "tasks.sst2: got neither, expected one of source and pairs_of."),
    ({"tasks.sst2.metrics": ["acuracy"]}, ".0: got 'acuracy', expected accuracy, f1,...mean 'accuracy'?"),
    ({"tasks.sst2.metrics": ["f1", "pearson"]}, ".1: got 'pearson' for type classification..."),
    ({"tasks.sst2.labels": ["a", "b", "c"]},
     "tasks.sst2.metrics.1: got 'f1' for 3 classes, expected accuracy or matthews."),
    ({"tasks.sst2.labels": {0: "neg", 1: "neg"}}, ": got neg, expected at least two classes."),
    ({"tasks.sst2.labels": ["neg", "pos", "neg"]}, ": 'neg' is listed twice, expected each entry once."),
    ({"tasks.sst2.labels": ["neg", None, "pos"]}, ": got None in the list, expected names of classes."),
    ({"tasks.sst2.labels": ["neg", ["pos"]]}, ": got ['pos'] in the list, expected names of classes."),
    ({"tasks.sst2.labels": {1: "pos", "1": "neg"}}, ": '1' is listed twice, expected each entry once."),
    ({"tasks.sst2.labels": 2}, ": got 2, expected mapping of name to text or list of text..."),
    ({"tasks.stsb.labels": {"0": "low", "1": "high"}}, ": got high, low for type regression..."),
    ({"tasks.qnli.text_b": "question"}, ": got 'question', the column of text_a; use another column."),
    ({"tasks.sst2.validation_split": "train"}, ": got 'train', the train_split; use another, or null."),
    ({"tasks.agpair.source": "x"}, "tasks.agpair: got both, expected one of source and pairs_of."),
    ({"tasks.agpair.pairs_of": "agnew"}, ": got 'agnew', no task...Did you mean 'agnews'?"),
    ({"tasks.agpair.pairs_of": "agpair"}, ": got 'agpair', the task itself; expected sst2,..."),
    ({"tasks.again": {"pairs_of": "agpair"}}, ".pairs_of: got 'agpair', a task of pairs..."),
    ({"tasks.agpair.pairs_of": "qnli"}, ": got 'qnli', a task of pairs..."),
    ({"tasks.agpair.pairs_of": "stsb"}, ": got 'stsb', a regression task..."),
    ({"tasks.agpair.label": "topic"}, ": has no effect with pairs_of; set it in tasks.agnews."),
    ({"training": {"decoder_learning_rate": 0.001}}, ".decoder_learning_rate: not used; expected a t..."),
    # similarity
    ({"similarity.measures": ["ckaa"]}, ".0: got 'ckaa', expected paradigm...mean 'cka'?"),
    ({"similarity.measures": ["cka"]}, ": nothing to correlate; expected at least three...got sst2, qnli."),
    (THREE | {"similarity.measures": ["cka", "cnm"]}, ".1: 'cnm' needs...; expected a section brain."),
    ({"brain": {"stimuli": "a", "responses": "b"}}, ": not used; expected 'cnm' in similarity.measures."),
    ({"brain": {"stimuli": "a"}}, ".responses: missing, expected text."),
    # IAT and transfer
    ({"methods": ["tuned", "iat"]}, "iat.mixtures: nothing to train; expected a mixture or more, because..."),
    ({"iat": {"alpha": 0.5}}, ".mixtures: nothing to train; expected a mixture or more, because..."),
    ({"iat.mixtures": ["all"], "methods": ["frozen"]},
     ": got frozen, expected tuned or lora as well, whose runs IAT continues."),
    ({"iat.mixtures": ["stsb"]}, ".0: no mixture 'stsb'; expected one of sst2+qnli, all."),
    ({"iat.mixtures": ["qnli+sst2"]}, ".0: no mixture 'qnli+sst2'...mean 'sst2+qnli'?"),
    ({"iat.mixtures": ["all"], "iat.delta": 0.3}, ": got 0.3, expected at most iat.reserve (0.2)."),
    ({"iat.mixtures": ["all"], "iat.deltas": [0.1, 0.5]}, ".1: got 0.5, expected at most iat.reserve (0.2)."),
    ({"iat.mixtures": ["all"], "iat.peak": 0.0001},
     ": not used; expected iat.rate: rewarmed, the only rate with a peak."),
    ({"iat.mixtures": ["all"], "iat.rescorings": 5},
     ": not used; expected 'rescored' in iat.controls."),
    ({"iat.mixtures": ["all"], "iat.sweep_controls": True},
     ": not used; expected iat.alphas or iat.deltas, to sweep over."),
    ({"iat.mixtures": ["all"], "iat.alphas": [0.5, 0.5000001]},
     ".1: got 0.5000001, expected at most six digits, as in paths: 0.5."),
    ({"iat.mixtures": ["all"], "iat.delta": 0.1000001}, ": got 0.1000001...digits, as in paths: 0.1."),
    ({"transfer": {"draws": 3}},
     ".tasks: expected at least one task, because other keys of transfer are set."),
    ({"transfer": {"tasks": ["stsb"]}},
     ".methods: got single, tuned, iat, expected a mixture under iat.mixtures to train on."),
    # LoRA
    ({"training.lora.rank": 8},
     "training.lora: not used; expected 'lora' in methods."),
    ({"methods": ["lora"], "models.minilm.weights": "random"}, ": got 'random', expected pretrained we..."),
    ({"methods": ["tuned", "lora"], "iat": {"mixtures": ["all"], "controls": ["random", "lora"]}},
     ".controls.1: got 'lora', whose runs would share the name of the method...one of them..."),
    ({"iat": {"mixtures": ["all"]}, "transfer": {"tasks": ["stsb"]}, "methods": ["lora"]},
     ": got lora, expected tuned as well, because transfer.tasks is set and transfer trains all weights."),
    ({"methods": ["lora", "frozen", "gates"]},
     ": got lora, frozen, gates, expected tuned as well, because gates trains all weights of pruned..."),
    # gates, atlas and probes
    ({"atlas.rankings": ["importanse"]}, ".0: got 'importanse'...Did you mean 'importance'?"),
    ({"atlas.mixtures": ["al"]}, ".0: no mixture 'al'...Did you mean 'all'?"),
    ({"pruning.fraction": 1, "atlas.rankings": ["l0", "subset"]},
     ".1: got 'subset', gates...fraction below 1."),
    ({"gates.pruning_methods": ["subsets"]}, ".0: got 'subsets'...Did you mean 'subset'?"),
    ({"atlas.rankings": ["importance"], "gates.pruning_methods": ["mean_ablation"]},
     ".0: got 'mean_ablation', which must also be in atlas.rankings, because these measure it."),
    ({"gates.kept": [0.3, 0.5, 0.3000000001]}, ".2: got 0.3000000001...digits, as in paths: 0.3."),
    ({"gates.penalty": 0}, ": got 0, expected number > 0."),
    ({"gates.penalties": [0.1, 0.02]}, ".1: got 0.02, the same as gates.penalty; use another value."),
    ({"gates.penalties": [1.0000001e-09]}, ".0: got 1.0000001e-09...digits, as in paths: 1e-09."),
    ({"gates": {"penalties": [0.1], "pruning_methods": ["subset"]}},
     ".penalties: not used; expected one of l0, static, dynamic, causal in gates.pruning_methods."),
    ({"gates.attention": ["crosss"]}, ".0: got 'crosss', expected...or cross. Did you mean 'cross'?"),
    ({"gates.attention": ["cross"], "atlas.rankings": ["l0"]},
     ".0: got 'l0', which ranks all heads, so it cannot be combined with gates.attention."),
    ({"gates.pruning_methods": ["l0"], "gates.keep_models": ["random"]},
     ".0: got 'random', which must also be in gates.pruning_methods."),
    ({"gates.source": "random"}, ": got 'random', expected importance, rescored..."),
    ({"gates.pruning_methods": ["l0"], "gates.source": "l0"},
     ": not used; expected pretrained, fresh in gates.pruning_methods, which keep its heads."),
    (WORDS_TASK | {"probes.methods": ["tuned", "iat"]},
     ".1: got 'iat', expected a mixture under iat.mixtures."),
    (WORDS_TASK | {"probes.methods": ["even"]},
     ".0: got 'even', expected it in iat.controls, and a mixture under iat.mixtures."),
]  # fmt: skip


def message(changes: dict[str, Any]) -> str:
    return refused(changed(VALID, changes))


@pytest.mark.parametrize(("changes", "told"), WRONG, ids=[str(changes) for changes, _ in WRONG])
def test_one_mistake_gives_one_line(changes: dict[str, Any], told: str) -> None:
    text, key = message(changes), [*changes][-1]
    words = re.escape(key + told if told[0] in ":." else told).replace(re.escape("..."), ".*")
    assert re.fullmatch(words, text), text


@pytest.mark.parametrize(
    ("changes", "keys"),
    [
        (
            {"seeds": [], "training.epochs": 0, "tasks.sst2.metrics": ["acc"]},
            ["seeds", "tasks.sst2.metrics.0", "training.epochs"],
        ),
        (
            {"mixtures.pairs": ["sst2", "qnil"], "tasks.agpair.pairs_of": "qnli", "iat.mixtures": ["al"]},
            ["mixtures.pairs.1", "iat.mixtures.0", "tasks.agpair.pairs_of"],
        ),
        (dict.fromkeys(VALID, ...), ["study", "seeds", "models", "tasks", "mixtures"]),
    ],
    ids=["values", "contradictions", "missing"],
)
def test_all_mistakes_are_reported_at_once(changes: dict[str, Any], keys: list[str]) -> None:
    assert [line.split(":")[0] for line in message(changes).splitlines()] == keys


def test_a_long_value_is_shortened() -> None:
    text = message({"training.epochs": "x " * 1000})
    assert "training.epochs: got 'x x" in text and len(text) < 150


@pytest.mark.parametrize("metrics", [["f1"], ["accuracy", "f1"]])
def test_f1_asks_which_class_it_is_of(metrics: list[str]) -> None:
    told = message({"tasks.sst2.metrics": metrics, "tasks.sst2.labels": ...})
    assert "tasks.sst2.labels: missing, expected a list of the two classes" in told


@pytest.mark.parametrize(
    ("labels", "wrong"), [([True, False], ""), (["good", "bad"], "true"), (["yes", "no"], "yes")]
)
def test_answers_take_truth_values_as_labels_do(labels: list[Any], wrong: str) -> None:
    answers = {"prompt": "{text_a}?", "answers": {True: " y", False: " n"}}
    changes = {"tasks.sst2": {"source": "x", "labels": labels} | answers}
    if not wrong:
        assert load(changed(VALID, changes)).tasks["sst2"].answers == {"true": " y", "false": " n"}
        return
    assert "tasks.sst2.answers.true: no class 'true'" in message(changes)
    assert ("quote them" in message(changes)) == (wrong == "yes")
