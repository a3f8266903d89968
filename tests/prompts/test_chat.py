"""Prompts as turns of a conversation, compared with the template of the tokenizer."""

import pytest

from headspec.tasks.kinds.texts.prompts import Prompts
from headspec.tasks.kinds.texts.wording import Wording, conversation
from support import language
from support.language import CLASSES, PROMPT


@pytest.fixture
def tokenizer(tmp_path):
    return language.talking(language.make("llama", tmp_path / "llama"))


@pytest.fixture
def answers(tokenizer) -> dict[str, str]:
    return language.answers(tokenizer.name_or_path)


def prompts(tokenizer, answers, shots: int = 2, most: int = 200) -> Prompts:
    wording = Wording(PROMPT, tuple(answers[name] for name in CLASSES), chat=True)
    wording = Prompts.showing(wording, language.table().head(shots), CLASSES)
    return Prompts(tokenizer, wording, most, "tasks.t")


def test_tokens_are_those_of_the_template(tokenizer, answers):
    table = language.table()
    before = [
        message
        for text, label in zip(table["text_a"][:2], table["label"][:2], strict=True)
        for message in (
            {"role": "user", "content": PROMPT.format(text_a=text)},
            {"role": "assistant", "content": answers[label]},
        )
    ]
    found = prompts(tokenizer, answers).encode(table, CLASSES)[0]["input_ids"]
    for text, ids in zip(table["text_a"], found, strict=True):
        messages = [*before, {"role": "user", "content": PROMPT.format(text_a=text)}]
        expected = tokenizer.apply_chat_template(messages, add_generation_prompt=True)
        assert ids == expected["input_ids"]


def test_answers_follow_the_turn_of_the_model(tokenizer, answers):
    expected = [tokenizer(f":{word}", add_special_tokens=False)["input_ids"][-1] for word in answers.values()]
    assert prompts(tokenizer, answers).answers(CLASSES) == expected


def test_a_conversation_that_is_too_long_loses_the_end_of_the_text(tokenizer, answers):
    whole = prompts(tokenizer, answers)
    longest = max(language.table()["text_a"], key=len)
    most = len(whole.prompt(longest, None).input_ids) - 2
    cut = prompts(tokenizer, answers, most=most).prompt(longest, None)
    assert cut.cut and len(cut.input_ids) <= most
    end = tokenizer("\nassistant:", add_special_tokens=False)["input_ids"]
    assert cut.input_ids[-len(end) :] == end


def test_templates_with_a_date_do_not_change_by_the_day(tokenizer):
    date = "{{ date_string if date_string is defined else strftime_now('%d %b %Y') }}"
    tokenizer.chat_template = date + "{{ messages[0]['content'] }}"
    assert conversation(tokenizer, [], " a question") == "26 Jul 2024 a question"
