"""Prompts that cannot be answered are refused before any job, with their key, value and what was expected."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from headspec.config.loading import load
from headspec.config.sections.model import Model
from headspec.errors import ConfigError, HeadspecError
from headspec.prompts import checks
from support import language, models

TASK: dict[str, Any] = {
    "source": "texts", "labels": language.CLASSES, "prompt": language.PROMPT,
    "answers": {"bad": " awful", "good": " lovely"},
}  # fmt: skip


def config(source: str = "model", **task: Any) -> dict[str, Any]:
    """A study of two prompted tasks, the first with other keys; None removes one."""
    first = {key: value for key, value in (TASK | task).items() if value is not None}
    return {
        "study": "s", "seeds": [0], "models": {"m": {"source": source, "max_length": 40}},
        "tasks": {"a": first, "b": TASK}, "mixtures": {"pairs": ["a", "b"]}, "methods": ["prompted"],
    }  # fmt: skip


WRONG = [
    ({"prompt": "no text:"}, "tasks.a.prompt: got 'no text:', expected the field '{text_a}' in it."),
    (
        {"prompt": "{text_a} {txt}:"},
        "tasks.a.prompt: got the field '{txt}', expected {text_a}. Did you mean 'text_a'?",
    ),
    ({"prompt": "{text_a!r}:"}, "tasks.a.prompt: got the field '{text_a!r}', expected {text_a}."),
    (
        {"prompt": "{mask} {text_a} {mask}"},
        "tasks.a.prompt: got '{mask} {text_a} {mask}', expected the field '{mask}' in it once at most.",
    ),
    (
        {"prompt": "{text_a}}:"},
        "tasks.a.prompt: got '{text_a}}:', Single '}' encountered in format string; expected '{{' and '}}'",
    ),
    ({"text_b": "other"}, "tasks.a.prompt: got 'saw {text_a} the house:', expected the field '{text_b}'"),
    ({"prompt": None}, "tasks.a.answers: has no effect without tasks.a.prompt; expected both, or neither."),
    ({"answers": None}, "tasks.a.answers: missing, expected an answer to tasks.a.prompt for every class."),
    (
        {"answers": {"bad": " awful", "godo": " lovely"}},
        "tasks.a.answers.godo: no class 'godo'; expected one of bad, good. Did you mean 'good'?",
    ),
    (
        {"answers": {"bad": " awful", "good": " awful"}},
        "tasks.a.answers.good: got ' awful', the answer of bad; expected another.",
    ),
    ({"answers": {"bad": "", "good": " x"}}, "tasks.a.answers.bad: got '', expected a text."),
    ({"shots": -1}, "tasks.a.shots: "),
    (
        {"prompt": None, "answers": None, "chat": True},
        "tasks.a.chat: has no effect without tasks.a.prompt; expected both, or neither.",
    ),
    (
        {"prompt": language.FILLED, "chat": True},
        "tasks.a.chat: got true, expected false, because tasks.a.prompt has the field '{mask}'.",
    ),
    (
        {"type": "regression", "labels": None},
        "tasks.a.prompt: got one for a regression task, expected a task of classification.",
    ),
    (
        {"prompt": None, "answers": None},
        "tasks.a.prompt: missing, expected a text, because methods has 'prompted'.",
    ),
]


@pytest.mark.parametrize(("task", "problem"), WRONG)
def test_a_wrong_prompt_is_refused(task, problem):
    with pytest.raises(ConfigError) as caught:
        load(config(**task))
    assert any(line.startswith(problem) for line in str(caught.value).splitlines()), caught.value


def problems(source: Path, train: int = 20, **task: Any) -> str:
    study = load(config(str(source), **task))
    prepared = SimpleNamespace(classes=language.CLASSES, train=range(train))
    with pytest.raises(HeadspecError) as caught:
        checks.check(study, {"a": prepared, "b": prepared})  # type: ignore[dict-item]
    return str(caught.value)


@pytest.fixture(scope="module")
def llama(tmp_path_factory) -> Path:
    return language.make("llama", tmp_path_factory.mktemp("models") / "llama")


@pytest.fixture(scope="module")
def known(llama) -> dict[str, str]:
    return language.answers(llama)


def test_a_prompt_that_can_be_answered_passes(llama, known):
    study = load(config(str(llama), answers=known) | {"mixtures": {"pairs": [], "single": ["b"]}})
    checks.check(study, {})
    prepared: Any = SimpleNamespace(classes=language.CLASSES, train=range(20))
    both = config(str(llama), answers=known)
    both["tasks"]["b"] = both["tasks"]["a"]
    checks.check(load(both), {"a": prepared, "b": prepared})


def test_answers_that_are_no_token_of_their_own_are_refused(llama, known):
    text = problems(llama, answers={"bad": known["bad"], "good": known["bad"] + " wxyz"})
    assert f"tasks.a.answers.good: got {known['bad'] + ' wxyz'!r}, the tokens [" in text
    assert "expected an answer of one known token (of models.m)" in text
    prompt = {"prompt": "{text_a} the: l", "answers": {"bad": known["bad"], "good": "ovely"}}
    text = problems(llama, **prompt)
    assert "tasks.a.answers.good: got 'ovely', which the tokenizer joins with the end of the prompt" in text


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


@pytest.mark.parametrize("name", language.MASKED)
def test_masked_models_have_the_head_that_fills_masks(name, tmp_path):
    path = language.make(name, tmp_path / "model")
    checks.check_model(path, Model(source=str(path)), "models.m")
    models.make(name, tmp_path / "encoder")  # the weights of AutoModel alone
    with pytest.raises(HeadspecError, match="has no language-model head"):
        checks.check_model(tmp_path / "encoder", Model(source=str(tmp_path / "encoder")), "models.m")


def test_random_weights_are_refused(llama, known):
    random = config(str(llama), answers=known)
    random["models"]["m"]["weights"] = "random"
    with pytest.raises(HeadspecError, match="^models.m.weights: got 'random', expected pretrained, because"):
        checks.check(load(random), {})


def test_models_without_the_head_that_answers_are_refused(tmp_path, known):
    bert = models.make("bert", tmp_path / "bert")
    text = problems(bert, answers=known)
    assert (
        f"models.m.source: '{bert}' has no language-model head (a head that fills masks), without which"
        in text
    )
    headless = models.make("llama", tmp_path / "llama")  # the weights of AutoModel alone
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
        checks.check(load(study), {"a": prepared, "b": prepared})
    assert f"tasks.a.answers.good: got '{one} {two}', the tokens [" in str(caught.value)
