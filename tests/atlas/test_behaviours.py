"""Rankings by what heads do: those of the notebook, on what a study has."""

from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedTokenizerFast

import headspec
from headspec.atlas.behaviours import answered, behaviour, texts_of
from headspec.config.measures.heads import MEASURES, REFUSED
from headspec.config.sections.task import Task
from headspec.errors import ConfigError, ModelError
from headspec.heads.behaviours import retrieval, successors
from headspec.heads.behaviours.probe import Probe
from headspec.heads.behaviours.table import BEHAVIOURS
from headspec.models.language import load_language_model
from headspec.models.multitask import MultiTask
from headspec.pipeline.jobs.job import prompt_settings
from headspec.prompts.head import prompted
from support import language
from support.models import WORDS
from support.running.studies import CONFIG, study
from support.tiny import multitask

RANKED = [name for name, measure in MEASURES.items() if measure.behaviour]
PAIRS = [*zip(WORDS[:8], WORDS[1:9], strict=True)]
N = 2


class Made(NamedTuple):
    joint: MultiTask
    plain: Any
    tokenizer: PreTrainedTokenizerFast


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Made:
    path = language.make("llama", tmp_path_factory.mktemp("made") / "m")
    plain = AutoModelForCausalLM.from_pretrained(path, max_position_embeddings=512).eval()
    plain.save_pretrained(path)
    joint = prompted(load_language_model(path, "m"), {"t": []}, {"t": {"type": "text"}}, "m")
    return Made(joint, plain, AutoTokenizer.from_pretrained(path))


@pytest.fixture(autouse=True)
def known_words(monkeypatch):
    monkeypatch.setattr(successors, "ORDERS", {"words": WORDS[:9]})


def test_all_behaviours_rank_heads_or_are_refused_by_name():
    assert {*RANKED} | {*REFUSED} == {*BEHAVIOURS} and not {*RANKED} & {*REFUSED}
    with pytest.raises(
        ConfigError, match=r"^atlas.rankings.0: got 'name_mover', which needs prompts that na"
    ):
        study(atlas={"rankings": ["name_mover"]})


@pytest.mark.parametrize("name", RANKED)
def test_behaviours_are_those_of_the_notebook(made, name):
    table = headspec.head_behaviours(
        made.plain, made.tokenizer, [name], sequences=N, tokens=48, tasks={"t": PAIRS}
    )
    expected = np.full(made.joint.gates.exists.shape, np.nan)
    expected[table["layer"], table["head"]] = table["score"] - table["control"]
    asked = [(f"Q: {text}\nA:", f" {answer}") for text, answer in PAIRS]
    found = behaviour(name, made.joint, made.tokenizer, N, tasks={"t": asked})
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_numbers_are_hidden_in_texts_of_the_task(made):
    table = pd.DataFrame({"text_a": ["the house was old", "the street was near"]})
    texts = texts_of(table, "t")
    assert {*texts} == {*table["text_a"]} and texts_of(table, "t") == texts
    probe = Probe(made.joint.gates, made.tokenizer, None, N, 10, 0, {}, texts=texts)
    hay = retrieval._hay(probe, np.random.default_rng(0))
    ids = [made.tokenizer(f" {text}", add_special_tokens=False)["input_ids"] for text in texts]
    assert len(hay) == 40 and hay[: len(ids[0] + ids[1])] in (ids[0] + ids[1], ids[1] + ids[0])


@pytest.mark.parametrize(
    ("keys", "label", "answer"),
    [
        ({"prompt": "{text_a}:", "answers": {"good": " fine", "bad": " poor"}}, "good", " fine"),
        ({"prompt": "{text_a}:", "type": "generation"}, "a house", " a house"),
        ({"prompt": "{text_a}:", "type": "answer_pairs"}, '[" right", " wrong"]', " right"),
    ],
)
def test_answers_are_those_of_the_prompts(keys, label, answer):
    classes = ["bad", "good"] if "answers" in keys else {"type": keys["type"]}
    table = pd.DataFrame({"text_a": ["one", "two"], "text_b": [None, "three"], "label": [label] * 2})
    pairs = answered(table, "t", prompt_settings(Task(source="x", **keys)), classes)
    assert sorted(pairs) == [("one:", answer), ("two:", answer)]


def test_prompts_have_the_words_of_the_task(made):
    """With both texts, and as turns of a chat if they are that in the study."""
    keys = {"prompt": "{text_b}? {text_a}!", "answers": {"good": " fine", "bad": " poor"}}
    table = pd.DataFrame({"text_a": ["one"], "text_b": ["two"], "label": ["good"]})
    pairs = answered(table, "t", prompt_settings(Task(source="x", **keys)), ["bad", "good"])
    assert pairs == [("two? one!", " fine")]
    tokenizer = AutoTokenizer.from_pretrained(made.tokenizer.name_or_path)
    tokenizer.chat_template = "{% for m in messages %}{{ m['role'] }} said {{ m['content'] }} {% endfor %}was"
    given = {"tasks": {"t": [(f"{a}:", f" {b}") for a, b in PAIRS]}}
    plain = behaviour("function_vector", made.joint, tokenizer, N, **given)
    talked = behaviour("function_vector", made.joint, tokenizer, N, **given, chat=True)
    assert np.isfinite(talked).all() and not np.allclose(plain, talked)


def test_examples_that_do_not_fit_are_left_out(made):
    long = [(" ".join(WORDS[:9] * 9), "house")]
    found = behaviour("function_vector", made.joint, made.tokenizer, N, tasks={"t": long + PAIRS})
    expected = behaviour("function_vector", made.joint, made.tokenizer, N, tasks={"t": PAIRS})
    np.testing.assert_array_equal(found, expected)
    with pytest.raises(ModelError, match="3 different examples of tasks.t have at most 46 tokens"):
        behaviour("function_vector", made.joint, made.tokenizer, N, tasks={"t": long * 5 + PAIRS[:3]})


def test_encoders_of_tuned_decoders_need_no_language_model(made):
    tuned = multitask("llama", {"a": ["x", "y"]}, vocab_size=len(made.tokenizer))
    table = headspec.head_behaviours(tuned.encoder, made.tokenizer, ["induction"], sequences=N, tokens=31)
    expected = table["score"] - table["control"]
    found = behaviour("induction", tuned, made.tokenizer, N)  # of a model of 64 tokens
    np.testing.assert_allclose(found[table["layer"], table["head"]], expected, atol=1e-6)


def test_encoders_do_nothing_of_it(made):
    with pytest.raises(ModelError, match="'induction' is of decoders; the model is a bert"):
        behaviour("induction", multitask("bert", {"a": ["x", "y"]}), made.tokenizer, N)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"atlas": {"rankings": ["retrieval"]}}, r"reads what a .* expected atlas.methods \[prompted\], not"),
        ({"gates": {"pruning_methods": ["successor"]}}, r"gates.pruning_methods.0: got 'successor', expect"),
    ],
)
def test_runs_without_a_language_model_are_refused(changes, message):
    with pytest.raises(ConfigError, match=message):
        study(methods=["tuned", "frozen", "atlas"], **changes)


def test_tasks_without_answers_are_refused():
    keys = {"type": "minimal_pairs", "text_a": "sentence", "text_b": "label"}
    atlas = {"methods": ["prompted"], "rankings": ["function_vector"]}
    tasks = {"tone": CONFIG["tasks"]["tone"] | keys, "other": CONFIG["tasks"]["tone"] | keys}
    with pytest.raises(ConfigError, match="which reads answers to prompts; tasks.tone has no prompt"):
        study(models={"llama": {"source": "llama"}}, tasks=tasks, mixtures={"pairs": ["tone", "other"]},
              methods=["prompted"], atlas=atlas, similarity={"measures": []})  # fmt: skip
