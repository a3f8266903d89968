"""Examples that are sentences of words: their tokens, units, and states."""

import numpy as np
import pandas as pd
import pytest
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from headspec.errors import DataError
from headspec.models.batching import Examples
from headspec.tasks.words.base import written
from headspec.tasks.words.head import Decoder
from headspec.tasks.words.tokens import ENCODING
from support.running.studies import tokenizer


def sentences(*texts: str) -> pd.DataFrame:
    """A data table of sentences, each word tagged with itself."""
    labels = [written(list(enumerate(text.split()))) for text in texts]
    return pd.DataFrame({"example": range(len(texts)), "text_a": texts, "text_b": None, "label": labels})


def test_units_of_sentences_have_the_index_of_their_label():
    classes = {"type": "tags", "labels": ["boat", "the"]}
    frame, truncated = ENCODING.encode(tokenizer(), sentences("the boat", "the deer"), 16, classes)
    assert truncated == 0 and [list(map(int, w)) for w in frame["words"]] == [[-1, 0, 1, -1]] * 2
    assert frame["units"].tolist() == [[[0, 1], [1, 0]], [[0, 1], [1, -1]]]
    gold = Examples(frame, Decoder).batch(np.array([1])).labels.gold
    assert gold == [[(0, "the"), (1, "deer")]]  # also the label that training lacks
    assert Examples(frame).label.tolist() == [[2, 1, 2]] * 2  # the most frequent word of both is `the`


@pytest.mark.parametrize(("longest", "seen"), [(6, 4), (5, 3), (3, 1)])
def test_a_long_sentence_is_cut_at_a_word_and_its_rest_counts_as_wrong(longest, seen):
    text = "the boat saw deer"
    classes = {"type": "tags", "labels": sorted(text.split())}
    frame, truncated = ENCODING.encode(tokenizer(), sentences(text), longest, classes)
    assert truncated == (longest < 6) and len(frame["input_ids"][0]) == longest
    assert list(frame["words"][0]) == [-1, *range(seen), -1]
    assert Examples(frame).label[:, 0] == [4]
    batch = Examples(frame, Decoder).batch(np.array([0]))
    assert batch.labels.lengths == [seen] and batch.labels.targets.shape == (1, seen, 2)
    assert len(batch.labels.gold[0]) == 4


def test_a_word_that_is_cut_in_two_is_left_out_unless_it_is_the_first():
    pieces = Tokenizer(
        models.WordPiece({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}, unk_token="[UNK]")
    )
    pieces.pre_tokenizer = pre_tokenizers.Whitespace()
    pieces.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 1), ("[SEP]", 2)]
    )
    fast = PreTrainedTokenizerFast(tokenizer_object=pieces, pad_token="[UNK]")
    classes = {"type": "tags", "labels": ["abb", "a"]}
    frame, _ = ENCODING.encode(fast, sentences("a abb", "abb a"), 4, classes)
    assert [list(words) for words in frame["words"]] == [[-1, 0, -1, -1], [-1, 0, 0, -1]]


def test_words_that_the_tokenizer_drops_are_named_and_refused_if_they_are_many(caplog):
    classes = {"type": "tags", "labels": ["boat"]}
    few = sentences(*["the boat was near our old house"] * 9, "the \u200b\ufffd boat")
    few["example"] += 30
    frame, _ = ENCODING.encode(tokenizer(), few, 16, classes)
    assert "1 of 66 words have no tokens, such as '\\u200b\\ufffd' in example 39;" in caplog.text
    assert list(frame["words"][9]) == [-1, 0, 2, -1]
    with pytest.raises(DataError, match="1 of 3 words have no tokens, such as .* in example 39; the tokeni"):
        ENCODING.encode(tokenizer(), few[9:], 16, classes)


def test_the_state_of_a_word_is_the_mean_of_its_tokens():
    frame = pd.DataFrame(
        {"example": [0, 1], "label": 1.0, "input_ids": [[1, 3, 4, 3, 2], [1, 3, 2]], "token_type_ids": None,
         "words": [np.array([-1, 0, 0, 1, -1]), np.array([-1, 0, -1])], "units": [[[0, 0], [1, 0]], [[0, 1]]],
         "target": "[]"}
    )  # fmt: skip
    batch = Examples(frame, Decoder).batch(np.array([0, 1]))
    assert batch.words.tolist() == [
        [[0, 0.5, 0.5, 0, 0], [0, 0, 0, 1, 0]],
        [[0, 1, 0, 0, 0], [0, 0, 0, 0, 0]],
    ]
    assert batch.part(slice(1, 2)).labels.lengths == [1]
