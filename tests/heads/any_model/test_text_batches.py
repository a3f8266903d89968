"""Importance of heads by texts with labels, and by prompts with answers."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForSeq2SeqLM, AutoTokenizer

import headspec
from support.model_types import any_model
from support.models import MODELS, llama, qwen


@pytest.fixture
def tokenizer(tmp_path):
    """A function that writes a tokenizer into a folder: the tokenizer."""

    def made(write):
        (tmp_path / "config.json").write_text('{"model_type": "roberta"}')
        write(tmp_path)
        return AutoTokenizer.from_pretrained(tmp_path)

    return made


def test_answers_are_scored_by_the_tokens_that_follow_their_prompts(tokenizer):
    tokenizer = tokenizer(qwen)
    model = any_model.model("pythia", vocab_size=len(tokenizer))
    prompts, answers = ["a good film is", "one"], [" fine", " two three"]

    def asked(**given):
        return headspec.head_importance(model, tokenizer=tokenizer, per_example=True, **given)

    for alone, prompt, answer in zip(asked(prompts=prompts, answers=answers), prompts, answers, strict=True):
        ids = tokenizer(prompt + answer, return_tensors="pt")["input_ids"]
        labels = ids.clone()
        labels[:, : len(tokenizer(prompt)["input_ids"])] = -100
        (expected,) = headspec.head_importance(
            model, [{"input_ids": ids, "labels": labels}], per_example=True
        )
        np.testing.assert_allclose(alone, expected, rtol=1e-3, atol=1e-6)
    many = asked(prompts=prompts * 10, answers=answers * 10)  # in batches of sixteen
    np.testing.assert_allclose(many, np.tile(many[:2], (10, 1, 1)), rtol=1e-3, atol=1e-6)
    for given, message in (
        ({"prompts": ["the love"], "answers": ["ly"]},
         "answers: got 'ly', which the tokenizer joins to 'the love'; expected an answer .*, such as ' ly'"),
        ({"prompts": prompts, "answers": answers[:1]}, "answers: got 1, expected 2, one for each of prompts"),
        ({"prompts": prompts}, "got prompts, tokenizer; expected batches, or tokenizer, texts and labels"),
    ):  # fmt: skip
        with pytest.raises(ValueError, match=message):
            asked(**given)


def test_texts_have_labels_by_number_or_name(tokenizer):
    model = any_model.model("roberta", vocab_size=500)
    given = {"tokenizer": tokenizer(MODELS["roberta"][1]), "texts": ["one two", "three", "one"]}
    expected = headspec.head_importance(model, labels=[0, 2, 1], **given)
    named = ["LABEL_0", "LABEL_2", "LABEL_1"]
    for labels in (named, torch.tensor([0, 2, 1]), np.array([0.0, 2, 1]), (False, 2, True)):
        np.testing.assert_array_equal(headspec.head_importance(model, labels=labels, **given), expected)
    several = headspec.head_importance(model, labels=[[0, 1, 1], [1, 0, 0], [1, 1, 1]], **given)
    assert not np.allclose(several, expected)  # the model has not kept the kind of the first labels
    assert model.config.problem_type is None


@pytest.mark.parametrize(
    ("settings", "labels"),
    [
        ({"num_labels": 1}, [0.3, -1.7, 4]),
        ({"num_labels": 2, "problem_type": "regression"}, [[0.5, 0], [3, -1], [-1, 2]]),
    ],
    ids=["one", "several"],
)
def test_texts_have_scores(tokenizer, settings, labels):
    model = any_model.model("roberta", vocab_size=500, **settings)
    words, texts = tokenizer(MODELS["roberta"][1]), ["one two", "three", "one"]
    found = headspec.head_importance(model, tokenizer=words, texts=texts, labels=labels, per_example=True)
    for scores, text, label in zip(found, texts, labels, strict=True):
        batch = {**words(text, return_tensors="pt"), "labels": torch.tensor([label])}
        expected = headspec.head_importance(model, [batch], per_example=True)
        np.testing.assert_allclose(scores, expected[0], rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize(
    ("labels", "message"),
    [
        (["LABEL_3"] * 3, "got 'LABEL_3'; the model has LABEL_0, LABEL_1, LABEL_2. Did you mean"),
        ([0, 1, 3], "got 3; the model has classes 0 to 2$"),
        ([0, 1, -100], "got -100; the model has classes 0 to 2$"),
        ([0, 0.5, 1], "got 0.5; the model has classes 0 to 2$"),
        ([0, None, 1], "got nan for example 1, expected a class or score$"),
        ([0, [1, 0], 1], "some are not numbers; expected a class or score for each example$"),
        ([[0], [1], [1]], r"got \(3, 1\), expected \(3,\) or, for several labels, \(3, 3\)$"),
        (np.zeros((3, 3, 2)), r"got \(3, 3, 2\), expected \(3,\) or"),
        ([0, 1], "got 2, expected 3, one for each of texts$"),
        ("good", "got one str, expected several, such as in a list$"),
    ],
    ids=str,
)
def test_labels_that_do_not_fit_are_refused(tokenizer, labels, message):
    model = any_model.model("roberta", vocab_size=500)
    given = {"tokenizer": tokenizer(MODELS["roberta"][1]), "texts": ["one two", "three", "one"]}
    with pytest.raises(ValueError, match=f"^labels: {message}"):
        headspec.head_importance(model, labels=labels, **given)


@pytest.mark.parametrize(
    ("texts", "message"),
    [
        ("one two", "got one str, expected several"),
        ([], "got none$"),
        (["one", None], "got None for example 1, expected a text$"),
        (["one", ("one", "two")], "got rows of 1, 2, expected all texts, or all pairs$"),
        ([("one", "two", "three")] * 2, "got rows of 3, expected all texts, or all pairs$"),
    ],
    ids=str,
)
def test_texts_that_are_none_are_refused(tokenizer, texts, message):
    model, words = any_model.model("roberta", vocab_size=500), tokenizer(MODELS["roberta"][1])
    with pytest.raises(ValueError, match=f"^texts: {message}"):
        headspec.head_importance(model, tokenizer=words, texts=texts, labels=[0, 1])
    with pytest.raises(TypeError, match="^tokenizer: got Tokenizer, expected a tokenizer of transformers$"):
        headspec.head_importance(model, tokenizer=words.backend_tokenizer, texts=["one"], labels=[0])


TEXTS = ["one two three four five", "one", "the lovely tree"]


@pytest.fixture
def classifier(tokenizer):
    """A GPT-2 that classifies by the state of the last token, and its tokenizer, as in its files."""
    words = tokenizer(llama)
    words.pad_token = words.eos_token
    return any_model.model("gpt2-classes", vocab_size=len(words), pad_token_id=words.pad_token_id), words


def padding_left(tokenizer, model):
    tokenizer.padding_side = "left"


def cutting_left(tokenizer, model):
    tokenizer.truncation_side = "left"


def as_left_by_a_call(tokenizer, model):
    tokenizer(TEXTS, padding="max_length", truncation=True, max_length=4)
    tokenizer.backend_tokenizer.enable_padding(direction="left", length=50)


def other_types(tokenizer, model):
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]


def without_padding(tokenizer, model):
    tokenizer.pad_token = model.config.pad_token_id = None


@pytest.mark.parametrize(
    "change", [padding_left, cutting_left, as_left_by_a_call, other_types, without_padding]
)
def test_scores_of_texts_do_not_depend_on_the_state_of_the_tokenizer(classifier, change):
    model, words = classifier
    expected = []
    for text, label in zip(TEXTS, [0, 2, 1], strict=True):
        batch = {**words(text, return_tensors="pt"), "labels": torch.tensor([label])}
        expected.append(headspec.head_importance(model, [batch], per_example=True)[0])
    change(words, model)
    state = vars(words).copy(), words.backend_tokenizer.to_str()
    found = headspec.head_importance(model, tokenizer=words, texts=TEXTS, labels=[0, 2, 1], per_example=True)
    np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
    assert (vars(words), words.backend_tokenizer.to_str()) == state


def test_special_tokens_that_texts_begin_with_are_there_once(classifier):
    """As `apply_chat_template` writes them."""
    model, words = classifier
    given = {"tokenizer": words, "per_example": True}
    chats = ["<s>" + text for text in TEXTS]
    expected, found = (
        headspec.head_importance(model, texts=texts, labels=[0, 2, 1], **given) for texts in (TEXTS, chats)
    )
    np.testing.assert_array_equal(found, expected)
    decoder, answers = any_model.model("pythia", vocab_size=len(words)), [" one", " two three", " the"]
    expected, found = (
        headspec.head_importance(decoder, prompts=prompts, answers=answers, **given)
        for prompts in (TEXTS, chats)
    )
    np.testing.assert_array_equal(found, expected)
    ids = words(chats[0] + answers[0], add_special_tokens=False, return_tensors="pt").input_ids
    labels = torch.where(torch.arange(ids.shape[1]) < ids.shape[1] - 1, -100, ids)
    (alone,) = headspec.head_importance(decoder, [{"input_ids": ids, "labels": labels}], per_example=True)
    np.testing.assert_allclose(found[0], alone, rtol=1e-3, atol=1e-6)


def test_special_tokens_around_what_encoder_decoders_read_and_write_are_there_once(tokenizer):
    model, words = any_model.model("t5", vocab_size=500), tokenizer(MODELS["roberta"][1])
    expected, found = (
        headspec.head_importance(model, tokenizer=words, prompts=[f"{a}one two{b}"], answers=[f"{a}three{b}"])
        for a, b in (("", ""), ("<s>", "</s>"))
    )
    np.testing.assert_array_equal(found, expected)


def test_long_texts_are_cut_and_long_prompts_refused(classifier, caplog):
    """Also by a tokenizer that does not know the model's positions."""
    model, words = classifier
    assert words.model_max_length > 10**9 and model.config.n_positions == 64
    long = "one two " * 100
    batch = {**words(long, truncation=True, max_length=64, return_tensors="pt"), "labels": torch.tensor([1])}
    expected = headspec.head_importance(model, [batch])
    found = headspec.head_importance(model, tokenizer=words, texts=[long], labels=[1])
    np.testing.assert_allclose(found, expected, rtol=1e-4, atol=1e-7)
    assert caplog.messages == ["1 of 1 texts have more than 64 tokens; their ends are cut"]
    decoder = any_model.model("pythia", vocab_size=len(words), max_position_embeddings=64)
    tokens = len(words(long + " two").input_ids)
    message = f"^prompts: example 1 has {tokens} tokens with its answer; the model takes at most 64$"
    with pytest.raises(ValueError, match=message):
        headspec.head_importance(decoder, tokenizer=words, prompts=["one", long], answers=[" two", " two"])


def test_prompts_are_texts_with_tokens(tokenizer):
    words = tokenizer(qwen)
    model = any_model.model("pythia", vocab_size=len(words))
    for prompts, message in (
        ([""], "prompts: got '' for example 0, which has no tokens$"),
        ([["one"]], r"prompts: got \['one'\] for example 0, expected a text$"),
        ("one", "prompts: got one str, expected several"),
    ):
        with pytest.raises(ValueError, match=f"^{message}"):
            headspec.head_importance(model, tokenizer=words, prompts=prompts, answers=[" two"])
    with pytest.raises(ValueError, match=r"^answers: got '', which .* that starts a token$"):
        headspec.head_importance(model, tokenizer=words, prompts=["one"], answers=[""])
    with pytest.raises(ValueError, match=r"^labels: .*ForCausalLM has no classes; expected prompts and "):
        headspec.head_importance(model, tokenizer=words, texts=["one"], labels=[0])


def test_texts_may_be_pairs(tokenizer):
    model, words = any_model.model("roberta", vocab_size=500), tokenizer(MODELS["roberta"][1])
    pairs = [("one two", "three"), ("one", "the tree")]
    given = {"texts": pairs, "labels": [0, 2], "per_example": True}
    found = headspec.head_importance(model, tokenizer=words, **given)
    for scores, pair, label in zip(found, pairs, given["labels"], strict=True):
        batch = {**words(*pair, return_tensors="pt"), "labels": torch.tensor([label])}
        (expected,) = headspec.head_importance(model, [batch], per_example=True)
        np.testing.assert_allclose(scores, expected, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["t5", "mbart"])
def test_encoder_decoders_read_prompts_and_write_answers(tokenizer, model_folder, name):
    """Some begin answers in another way than prompts."""
    if name == "t5":
        model, tokenizer = any_model.model("t5", vocab_size=500), tokenizer(MODELS["roberta"][1])
    else:
        folder = model_folder("mbart")
        model = AutoModelForSeq2SeqLM.from_pretrained(folder)
        tokenizer = AutoTokenizer.from_pretrained(folder, src_lang="en_XX", tgt_lang="de_DE")
    prompts, answers = ["one two", "three"], ["three", "one two three"]
    with pytest.raises(
        ValueError, match="^answers: example 1 has [0-9]+ tokens; the model takes at most 12$"
    ):
        tokenizer.model_max_length = 12
        headspec.head_importance(model, tokenizer=tokenizer, prompts=prompts, answers=["one", "one " * 20])
    tokenizer.model_max_length = 50
    asked = headspec.head_importance(
        model, tokenizer=tokenizer, prompts=prompts, answers=answers, per_example=True
    )
    for found, prompt, answer in zip(asked, prompts, answers, strict=True):
        labels = tokenizer(text_target=[answer], return_tensors="pt").input_ids
        batch = {**tokenizer([prompt], return_tensors="pt"), "labels": labels}
        (expected,) = headspec.head_importance(model, [batch], per_example=True)
        np.testing.assert_allclose(found, expected, rtol=1e-3, atol=1e-6)
