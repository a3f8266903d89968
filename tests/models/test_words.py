"""Sentences of words: their tokens, units and states, and the counts of units that a model predicts."""

import numpy as np
import pandas as pd
import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import PreTrainedTokenizerFast

from headspec.errors import DataError
from headspec.models.batching import Examples
from headspec.models.multitask import MultiTask
from headspec.tasks.kinds.words.decoders import Annotations, Decoder
from headspec.tasks.kinds.words.encoding import ENCODING
from headspec.tasks.kinds.words.spans import PREDICATE
from headspec.tasks.kinds.words.trees import PUNCTUATION
from headspec.tasks.kinds.words.units import NONE, written
from support import tiny
from support.running.studies import tokenizer

# --- tokens


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
    labels = Examples(frame, Decoder).batch(np.array([0])).labels
    assert labels.lengths == [seen] and labels.targets.shape == (1, seen, 2) and len(labels.gold[0]) == 4


def test_a_word_that_is_cut_in_two_is_left_out_unless_it_is_the_first():
    known = {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "a": 3, "##b": 4}
    pieces = Tokenizer(models.WordPiece(known, unk_token="[UNK]"))
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


# --- predictions

CLASSES = {
    "roles": {"type": "roles", "labels": ["ARG0", "ARG1", PREDICATE]},
    "trees": {"type": "constituents", "labels": [PUNCTUATION, "NP", "S", "VP+NP"]},
    "arcs": {"type": "dependencies", "labels": ["nsubj", "root"]},
}
#: units of two sentences of four words, of which the model sees three of the second; NONE is a new label
GOLD = {
    "roles": [[(1, 1, 1, 2), (1, 0, 0, 0), (1, 2, 3, 1)], [(3, 3, 3, 2), (3, 0, 0, 0), (1, 1, 1, 2)]],
    "trees": [[(0, 3, 2), (0, 0, 1), (1, 2, 3), (3, 3, 0)], [(0, 3, 2), (0, 1, NONE), (2, 2, 1)]],
    "arcs": [[(0, 1, 0), (1, 1, 1), (2, 1, 0), (3, 2, 0)], [(0, 3, 0), (1, 2, NONE), (2, 2, 1), (3, 2, 0)]],
}  # fmt: skip
#: right units, and predicted ones or words with the right head, of a model that has learnt what it sees
LEARNT = {
    "roles": [(2, 2), (0, 0)],  # the predicate that is not seen has no roles
    "trees": [(4, 4), (1, 1)],  # VP and NP are two brackets
    "arcs": [(4, 4), (1, 1)],  # a word's head is not seen, another's relation is new
}
#: what a model has learnt of a sentence of four words, and its units, some with labels that training lacks
NEW = {
    "roles": ([(1, 1, 1, 2), (1, 0, 0, 0)], [(1, 1, 1, PREDICATE), (1, 0, 0, "ARG0"), (1, 3, 3, "C-ARG0")]),
    "trees": ([(0, 3, 2), (0, 1, 1), (3, 3, 1)], [(0, 3, "S"), (0, 1, "ADJP+NP"), (3, 3, "NP+X+NP")]),
    "arcs": ([(0, 1, 0), (1, 1, 1), (2, 1, 0), (3, 2, 0)], GOLD["arcs"][0][:3] + [(3, 2, "obj")]),
}
#: an argument that goes on is wrong; of joint constituents, a part is right; a new relation has a head
FOUND = {"roles": (0, 1), "trees": (3, 3), "arcs": (3, 4)}


def names(task: str, units: list[tuple]) -> str:
    """Units with the names of their labels."""
    labels = [*CLASSES[task]["labels"], "new"]
    return written([(*u[:-1], u[-1] if isinstance(u[-1], str) else labels[u[-1]]) for u in units])


def learnt(task: str, labels: Annotations) -> tuple[MultiTask, torch.Tensor]:
    """A model whose decoder is fitted to states of sentences, and these."""
    torch.manual_seed(0)
    model = MultiTask(tiny.encoder("bert", 0), "mean", CLASSES).eval()
    states = torch.randn(len(labels.lengths), 4, model.encoder.config.hidden_size)
    optimizer = torch.optim.Adam(model.classifier(task).parameters(), lr=0.01)
    for _ in range(120):
        optimizer.zero_grad()
        model.losses(task, states, labels).sum().backward()
        optimizer.step()
    return model, states


@pytest.mark.parametrize("task", CLASSES)
def test_units_with_a_label_that_training_lacks_are_judged_as_what_they_are(task):
    taught, gold = NEW[task]
    model, states = learnt(task, Annotations.padded([4], [taught], [names(task, taught)]))
    asked = Annotations.padded([4], [[(0,) * (len(gold[0]) - 1) + (NONE,)]], [names(task, gold)])
    with torch.no_grad():
        assert tuple(model.predictions(task, states, asked)[0].tolist()) == FOUND[task]


@pytest.mark.parametrize("task", CLASSES)
@torch.no_grad()
def test_a_model_that_has_learnt_predicts_what_it_sees(task):
    labels = Annotations.padded([4, 3], GOLD[task], [names(task, units) for units in GOLD[task]])
    with torch.enable_grad():
        model, states = learnt(task, labels)
    predicted = model.predictions(task, states, labels)
    assert model.evidence(task, states, labels).shape == (2,) and predicted.dtype == torch.float32
    whole, cut = LEARNT[task]
    assert tuple(predicted[0].tolist()) == whole and predicted[1, 0] == cut[0]
    unknown = model.predictions(task, states.index_fill(0, torch.tensor([1]), torch.nan), labels)
    assert unknown[0].equal(predicted[0]) and unknown[1].isnan().all()
