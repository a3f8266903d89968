"""Texts to tokens: truncation and its count, pairs, labels."""

import json

import pytest
from tokenizers import processors

from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.models.tokens.tokenization import delimit, encode, tokenizer
from support.data.labelled_texts import table
from support.running.studies import WORDS, local_model
from support.running.studies import tokenizer as words

CLS, SEP = WORDS.index("[CLS]"), WORDS.index("[SEP]")


def ids(text: str) -> list[int]:
    return [WORDS.index(word) for word in text.split()]


def test_single_texts():
    rows = table(("the boat", None, "sea"), ("tree", None, "wood"))
    frame, truncated = encode(words(), rows, 16, ["wood", "sea"])
    assert frame["input_ids"].tolist() == [[CLS, *ids("the boat"), SEP], [CLS, *ids("tree"), SEP]]
    assert frame["token_type_ids"].tolist() == [[0] * 4, [0] * 3]
    assert frame["label"].tolist() == [1.0, 0.0] and frame["example"].tolist() == [0, 1]
    assert truncated == 0


def test_pairs_have_two_types():
    frame, _ = encode(words(), table(("the boat", "tree", "x")), 16, ["x", "y"])
    assert frame["input_ids"][0] == [CLS, *ids("the boat"), SEP, *ids("tree"), SEP]
    assert frame["token_type_ids"][0] == [0, 0, 0, 0, 1, 1]


def test_an_empty_text_has_only_special_tokens_or_is_refused():
    rows = table(("", None, "x"), ("the boat", None, "y"))
    frame, _ = encode(words(), rows, 16, ["x", "y"])
    assert frame["input_ids"][0] == [CLS, SEP]
    bare = words()
    bare.backend_tokenizer.post_processor = processors.Sequence([])
    with pytest.raises(EncoderError, match="1 empty texts, the first that of example 0, have no tokens"):
        encode(bare, rows, 16, ["x", "y"])
    delimit(bare)
    assert encode(bare, rows, 16, ["x", "y"])[0]["input_ids"][0] == [SEP]


def test_scores():
    frame, _ = encode(words(), table(("boat", None, "2.5"), ("tree", None, "-1")), 16, None)
    assert frame["label"].tolist() == [2.5, -1.0]


def test_truncated_examples_are_counted():
    long, exact = " ".join(["the"] * 9), " ".join(["the"] * 6)
    rows = table((long, None, "x"), (exact, None, "x"), ("the", None, "y"))
    frame, truncated = encode(words(), rows, 8, ["x", "y"])
    assert truncated == 1
    assert frame["input_ids"].str.len().tolist() == [8, 8, 3]
    assert frame["input_ids"][0] == [CLS, *ids(exact), SEP]


def test_the_longer_text_of_a_long_pair_is_truncated():
    frame, truncated = encode(words(), table((" ".join(["the"] * 9), "old tree", "x")), 10, ["x", "y"])
    assert truncated == 1
    assert frame["input_ids"][0] == [CLS, *ids("the the the the the"), SEP, *ids("old tree"), SEP]


def test_a_pair_of_two_long_texts_is_one_truncated_example():
    long = " ".join(["the"] * 9)
    frame, truncated = encode(words(), table((long, long, "x"), ("the", "the", "x")), 11, ["x", "y"])
    assert truncated == 1 and frame["input_ids"].str.len().tolist() == [11, 5]
    assert sum(frame["token_type_ids"][0]) == 5  # four words and [SEP] of the second text


@pytest.mark.parametrize(
    "content", [None, "{", json.dumps({"version": "1.0"})], ids=["missing", "cut", "empty"]
)
def test_a_broken_tokenizer_is_refused(tmp_path, content):
    folder = local_model(tmp_path / "bert")
    (folder / "tokenizer.json").unlink()
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(EncoderError, match="^models.bert.source: "):
        tokenizer(Model(source=str(folder)), "models.bert")
