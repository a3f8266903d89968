"""Prompts that cannot be answered are refused before any job, with their key, value and what was expected."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pandas as pd
import pytest
from transformers import AutoTokenizer

from headspec.config.loading import load
from headspec.config.sections.model import Model
from headspec.data.overlap import with_keys
from headspec.errors import ConfigError, EncoderError, HeadspecError
from headspec.prompts import checks
from headspec.tasks.answer_pairs.prompts import AnswerPairs
from headspec.tasks.kinds import KINDS
from headspec.tasks.texts.prompts import Prompts
from headspec.tasks.texts.wording import Wording
from support import language

TASK: dict[str, Any] = {
    "source": "texts", "labels": language.CLASSES, "prompt": language.PROMPT,
    "answers": {"bad": " awful", "good": " lovely"},
}  # fmt: skip

#: keys that make the first task one of pairs
PAIRS: dict[str, Any] = {"type": "answer_pairs", "labels": None, "answers": None}
TEXT_PAIRS: dict[str, Any] = PAIRS | {"type": "minimal_pairs", "prompt": None}


def config(source: str = "model", **task: Any) -> dict[str, Any]:
    """A study of two prompted tasks, the first with other keys; None removes one."""
    first = {key: value for key, value in (TASK | task).items() if value is not None}
    return {
        "study": "s", "seeds": [0], "models": {"m": {"source": source, "max_length": 40}},
        "tasks": {"a": first, "b": TASK}, "mixtures": {"pairs": ["a", "b"]}, "methods": ["prompted"],
    }  # fmt: skip


#: keys of the first task, and the problem after its name
WRONG = [
    ({"prompt": "no text:"}, "prompt: got 'no text:', expected the field '{text_a}' in it."),
    (
        {"prompt": "{text_a} {txt}:"},
        "prompt: got the field '{txt}', expected {text_a}. Did you mean 'text_a'?",
    ),
    ({"prompt": "{text_a!r}:"}, "prompt: got the field '{text_a!r}', expected {text_a}."),
    (
        {"prompt": "{mask} {text_a} {mask}"},
        "prompt: got '{mask} {text_a} {mask}', expected the field '{mask}' in it once at most.",
    ),
    (
        {"prompt": "{text_a}}:"},
        "prompt: got '{text_a}}:', Single '}' encountered in format string; expected '{{' and '}}'",
    ),
    ({"text_b": "other"}, "prompt: got 'saw {text_a} the house:', expected the field '{text_b}'"),
    ({"prompt": None}, "answers: has no effect without tasks.a.prompt; expected both, or neither."),
    ({"answers": None}, "answers: missing, expected an answer to tasks.a.prompt for every class."),
    (
        {"answers": {"bad": " awful", "godo": " lovely"}},
        "answers.godo: no class 'godo'; expected one of bad, good. Did you mean 'good'?",
    ),
    (
        {"answers": {"bad": " awful", "good": " awful"}},
        "answers.good: got ' awful', the answer of bad; expected another.",
    ),
    ({"answers": {"bad": "", "good": " x"}}, "answers.bad: got '', expected a text."),
    ({"shots": -1}, "shots: "),
    (
        {"prompt": None, "answers": None, "chat": True},
        "chat: has no effect without tasks.a.prompt; expected both, or neither.",
    ),
    (
        {"prompt": language.FILLED, "chat": True},
        "chat: got true, expected false, because tasks.a.prompt has the field '{mask}'.",
    ),
    (
        {"type": "regression", "labels": None},
        "prompt: got one for a regression task, expected a task of classification.",
    ),
    (PAIRS | {"answers": TASK["answers"]}, "answers: has no effect on a task of answer_pairs; expected"),
    (PAIRS | {"calibration": True}, "calibration: has no effect on a task of answer_pairs; expected"),
    (PAIRS | {"prompt": None}, "prompt: missing, expected the text that right and wrong answers follow."),
    (
        PAIRS | {"prompt": language.FILLED},
        "prompt: got the field '{mask}', expected none in a task of answer_pairs.",
    ),
    (PAIRS | {"label": "right"}, "label: got right for a task of answer_pairs, expected two columns."),
    (
        PAIRS | {"labels": language.CLASSES},
        "labels: got bad, good for type answer_pairs, expected no classes.",
    ),
    (TEXT_PAIRS | {"prompt": "{text_a}"}, "prompt: has no effect on a task of minimal_pairs; expected"),
    (TEXT_PAIRS | {"shots": 2}, "shots: has no effect on a task of minimal_pairs; expected none."),
    (TEXT_PAIRS | {"label": "x"}, "label: has no effect on a task of minimal_pairs; expected none."),
    (
        TEXT_PAIRS | {"text_b": "sentence_good"},
        "text_b: got 'sentence_good', the column of text_a; expected another column.",
    ),
    (
        TEXT_PAIRS | {"metrics": ["accuracy"]},
        "metrics.0: got 'accuracy' for type minimal_pairs, expected pair_accuracy, logit_difference.",
    ),
    (
        TEXT_PAIRS | {"metrics": ["logit_difference"]},
        "metrics.0: got 'logit_difference', no metric to compare by; expected pair_accuracy first.",
    ),
    ({"prompt": None, "answers": None}, "prompt: missing, expected a text, because methods has 'prompted'."),
]


@pytest.mark.parametrize(("task", "problem"), WRONG)
def test_a_wrong_prompt_is_refused(task, problem):
    with pytest.raises(ConfigError) as caught:
        load(config(**task))
    assert any(line.startswith(f"tasks.a.{problem}") for line in str(caught.value).splitlines()), caught.value


def test_pairs_are_not_trained_on():
    pairs = config(**TEXT_PAIRS)
    asked = {"methods": ["prompted", "tuned"], "mixtures": {"pairs": ["a", "b"], "single": ["a"]}}
    more = {"similarity": {"measures": ["rsa"]}, "transfer": {"tasks": ["a"], "methods": ["pretrained"]}}
    with pytest.raises(ConfigError) as caught:
        load(pairs | asked | more)
    lines = str(caught.value).splitlines()
    assert (
        "methods.1: got 'tuned', expected prompted without it, because tasks.a is of type minimal_pairs, for "
        "which nothing is trained." in lines
    )
    assert "mixtures.single.0: got 'a', of type minimal_pairs; expected a task to train on alone." in lines
    assert (
        "mixtures.pairs.0: got 'a', of type minimal_pairs; expected a task to train on alone, as "
        "similarity.measures compare models." in lines
    )
    assert "transfer.tasks.0: got 'a', a task of type minimal_pairs; expected one on texts." in lines
    without = {key: value for key, value in pairs.items() if key != "methods"}
    with pytest.raises(ConfigError, match="methods.0: got 'tuned', expected prompted without it"):
        load(without)


def test_the_columns_of_pairs_have_defaults():
    task = load(config(**TEXT_PAIRS)).tasks["a"]
    assert (task.text_a, task.text_b) == ("sentence_good", "sentence_bad") and task.paradigm == "pair"
    task = load(config(**PAIRS)).tasks["a"]
    assert (task.text_a, task.text_b, task.label) == ("text", None, ["right", "wrong"])
    assert KINDS[task.type].all_metrics(task) == ["pair_accuracy", "logit_difference"]


def problems(source: Path, train: int = 20, **task: Any) -> str:
    study = load(config(str(source), **task))
    prepared = SimpleNamespace(classes=language.CLASSES, train=range(train))
    with pytest.raises(HeadspecError) as caught:
        checks.check_prompts(study, {"a": prepared, "b": prepared})  # type: ignore[dict-item]
    return str(caught.value)


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return language.make("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def known(llama) -> dict[str, str]:
    return language.answers(llama)


def test_a_prompt_that_can_be_answered_passes(llama, known):
    study = load(config(str(llama), answers=known) | {"mixtures": {"pairs": [], "single": ["b"]}})
    checks.check_prompts(study, {})
    prepared: Any = SimpleNamespace(classes=language.CLASSES, train=range(20))
    both = config(str(llama), answers=known)
    both["tasks"]["b"] = both["tasks"]["a"]
    checks.check_prompts(load(both), {"a": prepared, "b": prepared})


def test_answers_that_are_no_tokens_of_their_own_are_refused(llama, known):
    prompt = {"prompt": "{text_a} the: l", "answers": {"bad": known["bad"], "good": "ovely"}}
    text = problems(llama, **prompt)
    assert "tasks.a.answers.good: got 'ovely', which the tokenizer joins with the end of the prompt" in text


def pairs_of(answers: list[list[str]]) -> Any:
    """What planning knows of a task of answer pairs."""
    train = pd.DataFrame({"label": [json.dumps(each) for each in answers]})
    return SimpleNamespace(classes=[], train=train)


def refused(source: Path, prepared: Any, **task: Any) -> str:
    study = config(str(source), **task)
    study["mixtures"] = {"groups": {"both": ["a", "b"]}}
    with pytest.raises(HeadspecError) as caught:
        checks.check_prompts(load(study), {"a": prepared})
    return str(caught.value)


def test_pairs_that_a_model_cannot_score_are_refused(llama, tmp_path):
    some, pairs = pairs_of([[" the", " house"]]), pairs_of([[" the", " house"], ["ovely", " one"]])
    study = load(config(str(llama), **PAIRS) | {"mixtures": {"groups": {"both": ["a", "b"]}}})
    checks.check_prompts(study, {"a": some})
    text = refused(llama, pairs, **PAIRS | {"prompt": "{text_a} the: l"})
    assert "tasks.a.label: got 'ovely', which the tokenizer joins with the end of the prompt" in text
    text = refused(llama, pairs_of([[" the" * 40, " one"]]), **PAIRS)
    assert "tasks.a.prompt: with 0 shots and without texts it has about" in text
    bert = language.make("bert", tmp_path / "bert")
    for task, kind in ((PAIRS, "answer_pairs"), (TEXT_PAIRS, "minimal_pairs")):
        text = refused(bert, some, **task)
        assert (
            f"tasks.a.type: got '{kind}', expected classification by a prompt with '{{mask}}', because"
            in text
        )
        assert "models.m is of type bert, which fills masks and continues no texts" in text
    gpt = language.make("openai-gpt", tmp_path / "gpt")
    text = refused(gpt, some, **TEXT_PAIRS)
    assert (
        "tasks.a.type: whole answers or texts are scored, expected a prompt with answers of one token" in text
    )
    several = {"bad": " really awful", "good": " really lovely"}
    text = refused(gpt, SimpleNamespace(classes=language.CLASSES, train=range(20)), answers=several)
    assert "tasks.a.answers: whole answers or texts are scored" in text
    windows = {
        "mistral": {"sliding_window": 20},
        "qwen2": {"use_sliding_window": True, "sliding_window": 20, "max_window_layers": 1},
    }
    for kind, window in windows.items():
        folder = language.make(kind, tmp_path / kind)
        settings = json.loads((folder / "config.json").read_text()) | {"layer_types": None} | window
        (folder / "config.json").write_text(json.dumps(settings))
        text = refused(folder, some, **TEXT_PAIRS)
        assert "models.m.max_length: got 40, expected at most 20, the window of attention" in text
    (folder / "config.json").write_text(json.dumps(settings | {"max_window_layers": 3}))  # in no layer
    study = load(config(str(folder), **TEXT_PAIRS) | {"mixtures": {"groups": {"both": ["a", "b"]}}})
    checks.check_prompts(study, {"a": some})


def test_answers_of_examples_are_read_in_their_prompts(llama):
    prompts = AnswerPairs(AutoTokenizer.from_pretrained(llama), Wording("{text_a}", ()), 40, "tasks.a")
    table = pd.DataFrame({"example": [7], "text_a": ["the l"], "text_b": None, "label": '["ovely", " the"]'})
    with pytest.raises(
        EncoderError, match="^tasks.a.label: example 7: got 'ovely', which the tokenizer joins"
    ):
        prompts.encode(table, [])


def test_conversations_without_a_template_are_refused(llama, known):
    text = problems(llama, answers=known, chat=True)
    assert "tasks.a.chat: got true, expected false, because the model's tokenizer has no chat" in text


def test_prompts_longer_than_the_model_are_refused(llama, known):
    text = problems(llama, answers=known, shots=12)
    assert "tasks.a.prompt: with 12 shots and without texts it has about" in text
    assert "expected fewer than models.m.max_length (40)" in text
    text = problems(llama, answers=known, prompt="{text_a} the {text_b}:")
    assert "tasks.a.prompt: got the field '{text_b}', expected {text_a}." in text
    text = problems(llama, train=4, answers=known, shots=4)
    assert "tasks.a.shots: got 4, expected fewer than the 4 training examples." in text


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
def test_prompts_without_tokens_are_refused(tmp_path, task, texts, problem):
    """Where a model begins texts with no token; by planning and, where that lacks the texts, by the job."""
    gpt = language.make("gpt2", tmp_path / "gpt")
    settings = {"prompt": "{text_a}", "answers": language.answers(gpt)} | task
    train = pd.DataFrame({"text_a": ["one", "two", "old"], "text_b": None, "label": ["bad", "good", "bad"]})
    table = pd.DataFrame({"example": range(len(texts)), "text_a": texts, "text_b": None, "label": "bad"})
    prepared: Any = SimpleNamespace(classes=language.CLASSES, train=train, validation=with_keys(table, 0))
    study = load(config(str(gpt), **settings))

    def planned() -> None:
        checks.check_prompts(study, {"a": prepared})

    def job() -> None:
        wording = Wording.for_task(study.tasks["a"], language.CLASSES).showing(
            train[: study.tasks["a"].shots], language.CLASSES
        )
        prompts = Prompts(AutoTokenizer.from_pretrained(gpt), wording, 40, "tasks.a")
        prompts.encode(table, language.CLASSES)
        if study.tasks["a"].calibration:
            prompts.content_free()

    for run in (planned, job):
        if not problem:
            run()
            continue
        with pytest.raises(EncoderError if run is job else HeadspecError) as caught:
            run()
        assert problem in str(caught.value)


@pytest.mark.parametrize("name", language.MASKED)
def test_masked_models_have_the_head_that_fills_masks(name, tmp_path, model_folder):
    path = language.make(name, tmp_path / "model")
    checks.check_model(path, Model(source=str(path)), "models.m")
    encoder = model_folder(name)  # the weights of AutoModel alone
    with pytest.raises(HeadspecError, match="has no language-model head"):
        checks.check_model(encoder, Model(source=str(encoder)), "models.m")


def test_random_weights_are_refused(llama, known):
    random = config(str(llama), answers=known)
    random["models"]["m"]["weights"] = "random"
    with pytest.raises(HeadspecError, match="^models.m.weights: got 'random', expected pretrained, because"):
        checks.check_prompts(load(random), {})


def test_models_without_the_head_that_answers_are_refused(model_folder, known):
    bert = model_folder("bert")
    text = problems(bert, answers=known)
    assert (
        f"models.m.source: '{bert}' has no language-model head (a head that fills masks), without which"
        in text
    )
    headless = model_folder("llama")  # the weights of AutoModel alone
    text = problems(headless, answers=known)
    assert f"models.m.source: '{headless}' has no language-model head (lm_head.weight)" in text


def test_masks_that_the_model_does_not_fill_are_refused(llama, known, tmp_path):
    text = problems(llama, answers=known, prompt=language.FILLED)
    assert "tasks.a.prompt: got 'saw {text_a} the {mask} house', expected none with '{mask}', because" in text
    assert "models.m is of type llama, which continues texts" in text
    bert = language.make("bert", tmp_path / "bert")
    text = problems(bert, answers=known)
    assert "tasks.a.prompt: got 'saw {text_a} the house:', expected the field '{mask}' in it" in text


def test_answers_that_do_not_fit_the_mask_are_refused(tmp_path):
    bert = language.make("bert", tmp_path / "bert")
    one, two = language.answers(bert).values()
    study = config(str(bert), answers={"bad": one, "good": f"{one} {two}"}, prompt=language.FILLED)
    study["tasks"]["b"] = study["tasks"]["a"]
    prepared: Any = SimpleNamespace(classes=language.CLASSES, train=range(20))
    with pytest.raises(HeadspecError) as caught:
        checks.check_prompts(load(study), {"a": prepared, "b": prepared})
    assert f"tasks.a.answers.good: got '{one} {two}', the tokens [" in str(caught.value)
