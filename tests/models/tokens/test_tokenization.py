"""Texts to tokens: truncation and its count, pairs, labels."""

import json

import pandas as pd
import pytest
from tokenizers import processors
from transformers import AutoTokenizer

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.models.tokenization import delimit, encode, special_tokens, tokenizer
from support.data.labelled_texts import table
from support.models import TEXTS, make
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
    with pytest.raises(ModelError, match="1 empty texts, the first that of example 0, have no tokens"):
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


@pytest.mark.parametrize("name", ["bert", "roberta", "llama", "gpt2", "qwen2"])
def test_special_tokens_that_texts_have_already_are_there_once(tmp_path, name):
    """They begin texts of chats. Cut texts have as many tokens, of texts and pairs, as without them."""
    split = tokenizer(Model(source=str(make(name, tmp_path / name))), "models.m")
    start, end = ("".join(split.convert_ids_to_tokens(ids)) for ids in special_tokens(split))
    for second in (None, "the old tree and the sea"):
        plain = table(*((text, second, "x") for text in TEXTS[:6]))
        marked = plain.assign(
            text_a=start + plain["text_a"] + ("" if second else end),
            text_b=plain["text_b"] + end if second else plain["text_b"],
        )
        mixed = pd.concat([marked.head(3), plain.tail(3)])
        for most in (10**4, 6):
            (expected, cut), (found, also) = (encode(split, each, most, ["x"]) for each in (plain, mixed))
            assert cut == also and (cut > 0) == (most == 6)
            if second is None or most > 6:  # of a pair, another text may be cut
                pd.testing.assert_frame_equal(found, expected)
            assert found["input_ids"].str.len().equals(expected["input_ids"].str.len())


def test_texts_are_cut_at_their_ends_whatever_the_files_of_a_tokenizer_say(tmp_path):
    folder = make("bert", tmp_path / "bert")
    frames = []
    for side in ("right", "left"):
        loaded = AutoTokenizer.from_pretrained(folder)
        loaded.truncation_side = loaded.padding_side = side
        loaded.save_pretrained(folder)
        split = tokenizer(Model(source=str(folder)), "models.m")
        assert split.truncation_side == "right"
        frames.append(encode(split, table(*((text, None, "x") for text in TEXTS[:6])), 6, ["x"])[0])
    pd.testing.assert_frame_equal(*frames)


@pytest.mark.parametrize(
    "content", [None, "{", json.dumps({"version": "1.0"})], ids=["missing", "cut", "empty"]
)
def test_a_broken_tokenizer_is_refused(tmp_path, content):
    folder = local_model(tmp_path / "bert")
    (folder / "tokenizer.json").unlink()
    if content is not None:
        (folder / "tokenizer.json").write_text(content)
    with pytest.raises(ModelError, match="^models.bert.source: "):
        tokenizer(Model(source=str(folder)), "models.bert")
