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


def test_single_texts_pairs_and_scores():
    rows = table(("the boat", None, "sea"), ("tree", None, "wood"))
    frame, truncated = encode(words(), rows, 16, ["wood", "sea"])
    boat, tree = ids("the boat"), ids("tree")
    assert frame["input_ids"].tolist() == [[CLS, *boat, SEP], [CLS, *tree, SEP]]
    assert frame["token_type_ids"].tolist() == [[0] * 4, [0] * 3]
    assert frame["label"].tolist() == [1.0, 0.0] and frame["example"].tolist() == [0, 1]
    assert truncated == 0
    frame, _ = encode(words(), table(("the boat", "tree", "2.5"), ("tree", "tree", "-1")), 16, None)
    assert frame["input_ids"][0] == [CLS, *boat, SEP, *tree, SEP]
    assert frame["token_type_ids"][0] == [0, 0, 0, 0, 1, 1]
    assert frame["label"].tolist() == [2.5, -1.0]


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


def test_truncated_examples_are_counted():
    """The longer text of a pair is cut; a pair is one example."""
    long, exact = " ".join(["the"] * 9), " ".join(["the"] * 6)
    single = table((long, None, "x"), (exact, None, "x"), ("the", None, "y"))
    frame, truncated = encode(words(), single, 8, ["x", "y"])
    assert truncated == 1 and frame["input_ids"].str.len().tolist() == [8, 8, 3]
    assert frame["input_ids"][0] == [CLS, *ids(exact), SEP]
    pairs = table((long, "old tree", "x"), (long, long, "x"), ("the", "the", "x"))
    frame, truncated = encode(words(), pairs, 11, ["x", "y"])
    assert truncated == 2 and frame["input_ids"].str.len().tolist() == [11, 11, 5]
    assert frame["input_ids"][0] == [CLS, *ids(exact), SEP, *ids("old tree"), SEP]
    assert sum(frame["token_type_ids"][1]) == 5  # four words and [SEP] of the second text


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
