"""Prompts that cannot be answered are refused before any job, with key, value and what was expected."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from transformers import AutoTokenizer

from headspec.config.loading import load
from headspec.config.sections.model import Model
from headspec.data.overlap import with_keys
from headspec.errors import HeadspecError, ModelError
from headspec.prompts import checks
from headspec.tasks.kinds.continuations.prompts import AnswerPairs
from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording
from support import language
from support.configs import refused
from support.language import FILLED

TASK: dict[str, Any] = {
    "source": "texts", "labels": language.CLASSES, "prompt": language.PROMPT,
    "answers": {"bad": " awful", "good": " lovely"},
}  # fmt: skip
NO_PROMPT = {"prompt": None, "answers": None}
#: keys that make the first task one of pairs
PAIRS: dict[str, Any] = {"type": "answer_pairs", "labels": None, "answers": None}
TEXT_PAIRS: dict[str, Any] = PAIRS | {"type": "minimal_pairs", "prompt": None}


def config(source: object = "model", **task: Any) -> dict[str, Any]:
    """A study of two prompted tasks, the first with other keys; None removes one."""
    first = {key: value for key, value in (TASK | task).items() if value is not None}
    return {
        "study": "s", "seeds": [0], "models": {"m": {"source": str(source), "max_length": 40}},
        "tasks": {"a": first, "b": TASK}, "mixtures": {"pairs": ["a", "b"]}, "methods": ["prompted"],
    }  # fmt: skip


#: keys of the first task, and the problem after its name
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"prompt": "no text:"}, "prompt: got 'no text:', expected the field '{text_a}' in it."),
    ({"prompt": "{text_a} {txt}:"},
     "prompt: got the field '{txt}', expected {text_a}. Did you mean 'text_a'?"),
    ({"prompt": "{text_a!r}:"}, "prompt: got the field '{text_a!r}', expected {text_a}."),
    ({"prompt": "{mask} {text_a} {mask}"},
     "prompt: got '{mask} {text_a} {mask}', expected the field '{mask}' at most once."),
    ({"prompt": "{text_a}}:"},
     "prompt: got '{text_a}}:', Single '}' encountered in format string; expected '{{' and '}}'"),
    ({"text_b": "other"}, "prompt: got 'saw {text_a} the house:', expected the field '{text_b}'"),
    ({"prompt": None}, "answers: has no effect without tasks.a.prompt; set both or neither."),
    ({"answers": None}, "answers: missing, expected an answer to tasks.a.prompt for every class."),
    ({"answers": {"bad": " x", "godo": " y"}},
     "answers.godo: no class 'godo'; expected one of bad, good. Did you mean 'good'?"),
    ({"answers": {"bad": " x", "good": " x"}},
     "answers.good: got ' x', the answer of bad; use another."),
    ({"answers": {"bad": "", "good": " x"}}, "answers.bad: got '', expected a text."),
    ({"shots": -1}, "shots: "),
    (NO_PROMPT, "prompt: missing, expected a text, because methods has 'prompted'."),
    (NO_PROMPT | {"chat": True}, "chat: has no effect without tasks.a.prompt; set both or neither."),
    ({"prompt": FILLED, "chat": True},
     "chat: got true, expected false, because tasks.a.prompt has the field '{mask}'."),
    ({"type": "regression", "labels": None},
     "prompt: got a prompt for a regression task, which has none; remove it."),
    (PAIRS | {"answers": TASK["answers"]}, "answers: has no effect on a task of answer_pairs; remove it."),
    (PAIRS | {"calibration": True}, "calibration: has no effect on a task of answer_pairs; remove it."),
    (PAIRS | {"prompt": None}, "prompt: missing, expected the text that right and wrong answers follow."),
    (PAIRS | {"prompt": FILLED}, "prompt: got the field '{mask}', which no task of answer_pairs has;"),
    (PAIRS | {"label": "right"}, "label: got right for a task of answer_pairs, expected two columns."),
    (PAIRS | {"labels": language.CLASSES},
     "labels: got bad, good for type answer_pairs, which has no classes; remove it."),
    (TEXT_PAIRS | {"prompt": "{text_a}"}, "prompt: has no effect on a task of minimal_pairs; remove it."),
    (TEXT_PAIRS | {"shots": 2}, "shots: has no effect on a task of minimal_pairs; remove it."),
    (TEXT_PAIRS | {"label": "x"}, "label: has no effect on a task of minimal_pairs; remove it."),
    (TEXT_PAIRS | {"text_b": "sentence_good"},
     "text_b: got 'sentence_good', the column of text_a; use another column."),
    (TEXT_PAIRS | {"metrics": ["accuracy"]},
     "metrics.0: got 'accuracy' for type minimal_pairs, expected pair_accuracy, logit_difference."),
    (TEXT_PAIRS | {"metrics": ["logit_difference"]},
     "metrics.0: got 'logit_difference', no metric to compare by; expected pair_accuracy first."),
]  # fmt: skip


@pytest.mark.parametrize(("task", "problem"), WRONG)
def test_a_wrong_prompt_is_refused(task, problem):
    assert f"\ntasks.a.{problem}" in "\n" + refused(config(**task))


def test_pairs_are_not_trained_on():
    pairs = config(**TEXT_PAIRS)
    asked = {"methods": ["prompted", "tuned"], "mixtures": {"pairs": ["a", "b"], "single": ["a"]}}
    more = {"similarity": {"measures": ["rsa"]}, "transfer": {"tasks": ["a"], "methods": ["pretrained"]}}
    lines = refused(pairs | asked | more).splitlines()
    alone = "got 'a', of type minimal_pairs; expected a task to train on alone"
    assert {
        "methods.1: got 'tuned', expected prompted without it, because tasks.a is of type minimal_pairs, for "
        "which nothing is trained.",
        f"mixtures.single.0: {alone}.",
        f"mixtures.pairs.0: {alone}, as similarity.measures compare models.",
        "transfer.tasks.0: got 'a', a task of type minimal_pairs; expected a task on whole texts.",
    } <= {*lines}
    del pairs["methods"]
    assert "methods.0: got 'tuned', expected prompted without it" in refused(pairs)


@pytest.mark.parametrize(
    ("methods", "reason"),
    [
        (["tuned"], "only the method 'prompted' runs a model without training it."),
        (["prompted", "tuned"], "methods.1, 'tuned', trains all of its weights."),
    ],
)
def test_bfloat16_is_for_models_that_nothing_trains(methods, reason):
    study = config() | {"methods": methods, "models": {"m": {"source": "model", "dtype": "bf16"}}}
    assert f"models.m.dtype: got 'bf16', expected fp32, because {reason}" in refused(study)


def test_the_columns_of_pairs_have_defaults():
    task = load(config(**TEXT_PAIRS)).tasks["a"]
    assert (task.text_a, task.text_b) == ("sentence_good", "sentence_bad") and task.paradigm == "pair"
    task = load(config(**PAIRS)).tasks["a"]
    assert (task.text_a, task.text_b, task.label) == ("text", None, ["right", "wrong"])
    assert task.metrics == ["pair_accuracy", "logit_difference"]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Callable[[str], Path]:
    """A function of a name in `support.models`: the folder of a language model."""
    folder = tmp_path_factory.mktemp("models")

    def path(name: str) -> Path:
        return folder / name if (folder / name).exists() else language.make(name, folder / name)

    return path


def labelled(n: int = 20) -> Any:
    """What planning knows of a task of classes."""
    return SimpleNamespace(classes=language.CLASSES, train=range(n))


def paired(*answers: list[str]) -> Any:
    """What planning knows of a task of answer pairs."""
    train = pd.DataFrame({"label": [json.dumps(each) for each in answers]})
    return SimpleNamespace(classes=[], train=train)


def told(source: Path, prepared: Any, **task: Any) -> str:
    """What planning says of a study whose first task has other keys; empty if nothing is wrong."""
    study = load(config(source, **{"answers": language.answers(source)} | task))
    try:
        checks.check_prompts(study, {"a": prepared})
    except HeadspecError as error:
        return str(error)
    return ""


LONG = paired([" the" * 40, " one"])
SOME = paired([" the", " house"])
JOINED = "got 'ovely', which the tokenizer joins with the end of the prompt"
BY_MASK = (
    "expected classification by a prompt with '{mask}', because models.m is a masked language model (bert)"
)
#: model, keys of the first task, what is known of it, and the problem; "..." stands for any text
REFUSED: list[tuple[str, dict[str, Any], Any, str]] = [
    ("llama", {}, labelled(), ""),
    ("llama", PAIRS, SOME, ""),
    ("llama", {"prompt": "{text_a} the: l", "answers": {"bad": " the", "good": "ovely"}}, labelled(), JOINED),
    ("llama", PAIRS | {"prompt": "{text_a} the: l"}, paired([" the", " one"], ["ovely", " one"]), JOINED),
    ("llama", PAIRS, LONG, "tasks.a.prompt: with 0 shots and without texts it has about"),
    ("llama", {"shots": 12}, labelled(), "tasks.a.prompt: with 12 shots and...than models.m.max_length (40)"),
    ("llama", {"shots": 4}, labelled(4),
     "tasks.a.shots: got 4, expected fewer than the 4 training examples."),
    ("llama", {"prompt": "{text_a} the {text_b}:"}, labelled(),
     "got the field '{text_b}', expected {text_a}."),
    ("llama", {"chat": True}, labelled(),
     "tasks.a.chat: got true, expected false, because the model's tokenizer has"),
    ("llama", {"prompt": FILLED}, labelled(),
     "house', expected a prompt without '{mask}', because models.m is a model that continues texts (llama)"),
    ("bert", {}, labelled(),
     "saw {text_a} the house:', expected a prompt with the field '{mask}', because models.m is a masked"),
    ("bert", {"prompt": FILLED, "answers": {"bad": "awful", "good": "awful lovely"}}, labelled(),
     "tasks.a.answers.good: got 'awful lovely', the tokens ["),
    ("bert", PAIRS, SOME, f"tasks.a.type: got 'answer_pairs', {BY_MASK}"),
    ("bert", TEXT_PAIRS, SOME, f"tasks.a.type: got 'minimal_pairs', {BY_MASK}"),
    ("openai-gpt", TEXT_PAIRS, SOME,
     "tasks.a.type: whole answers or texts are scored, expected a prompt with"),
    ("openai-gpt", {"answers": {"bad": " really awful", "good": " really lovely"}}, labelled(),
     "tasks.a.answers: whole answers or texts are scored"),
]  # fmt: skip


@pytest.mark.parametrize(("model", "task", "prepared", "problem"), REFUSED)
def test_prompts_that_a_model_cannot_answer_are_refused(made, model, task, prepared, problem):
    text = told(made(model), prepared, **task)
    assert bool(text) == bool(problem)
    assert re.search(re.escape(problem).replace(re.escape("..."), ".*"), text), text


def test_models_with_windows_shorter_than_texts_score_no_texts(tmp_path):
    windows = {
        "mistral": {"sliding_window": 20},
        "qwen2": {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    }
    for kind, window in windows.items():
        folder = language.make(kind, tmp_path / kind)
        settings = json.loads((folder / "config.json").read_text()) | {"layer_types": None} | window
        (folder / "config.json").write_text(json.dumps(settings))
        text = told(folder, SOME, **TEXT_PAIRS)
        assert "models.m.max_length: got 40, expected at most 20, the window of attention" in text
    (folder / "config.json").write_text(json.dumps(settings | {"max_window_layers": 3}))  # in no layer
    assert told(folder, SOME, **TEXT_PAIRS) == ""


def test_answers_of_examples_are_read_in_their_prompts(made):
    tokenizer = AutoTokenizer.from_pretrained(made("llama"))
    prompts = AnswerPairs(tokenizer, Wording("{text_a}", ()), 40, "tasks.a")
    table = pd.DataFrame({"example": [7], "text_a": ["the l"], "text_b": None, "label": '["ovely", " the"]'})
    with pytest.raises(ModelError, match=f"^tasks.a.label: example 7: {JOINED}"):
        prompts.encode(table, [])


@pytest.mark.parametrize(
    ("task", "texts", "problem"),
    [
        (
            {},
            ["", "saw the house", ""],
            "tasks.a.prompt: 2 empty texts, the first that of example 0, have no",
        ),
        ({"calibration": True}, ["saw"], "tasks.a.calibration: got true, but tasks.a.prompt has no tokens"),
        ({"prompt": "saw {text_a}", "calibration": True}, ["", "saw"], ""),
        ({"shots": 1, "calibration": True}, ["", "saw"], ""),
    ],
)
def test_prompts_without_tokens_are_refused(made, task, texts, problem):
    """Where a model begins texts with no token; by planning and, where that lacks the texts, by the job."""
    gpt, settings = made("gpt2"), {"prompt": "{text_a}"} | task
    train = pd.DataFrame({"text_a": ["one", "two", "old"], "text_b": None, "label": ["bad", "good", "bad"]})
    table = pd.DataFrame({"example": range(len(texts)), "text_a": texts, "text_b": None, "label": "bad"})
    prepared: Any = SimpleNamespace(classes=language.CLASSES, train=train, validation=with_keys(table, 0))
    found = told(gpt, prepared, **settings)
    assert problem in found and bool(found) == bool(problem)

    def job() -> None:
        asked = load(config(gpt, **{"answers": language.answers(gpt)} | settings)).tasks["a"]
        wording = Prompts.showing(
            Wording.for_task(asked, language.CLASSES), train[: asked.shots], language.CLASSES
        )
        prompts = Prompts(AutoTokenizer.from_pretrained(gpt), wording, 40, "tasks.a")
        prompts.encode(table, language.CLASSES)
        if asked.calibration:
            prompts.content_free()

    if problem:
        with pytest.raises(ModelError, match=re.escape(problem)):
            job()
    else:
        job()


@pytest.mark.parametrize("name", [*language.MASKED, "llama"])
def test_models_have_the_head_that_answers(name, made, model_folder):
    path, encoder = made(name), model_folder(name)  # which has the weights of AutoModel alone
    checks.check_model(path, Model(source=str(path)), "models.m")
    head = "lm_head.weight" if name == "llama" else "a head that fills masks"
    problem = f"models.m.source: '{encoder}' has no language-model head ({head}), which prompts need"
    assert problem in told(encoder, labelled())


def test_random_weights_are_refused(made):
    random = config(made("llama"))
    random["models"]["m"]["weights"] = "random"
    with pytest.raises(HeadspecError, match="^models.m.weights: got 'random', expected pretrained, because"):
        checks.check_prompts(load(random), {})
