"""Tokens of words, and separators, of the tokenizer of every architecture."""

import numpy as np
import pytest
from transformers import AutoConfig

from headspec.config.sections.model import Model
from headspec.errors import ModelError
from headspec.models import vocabulary
from headspec.models.tokenization import tokenizer
from headspec.models.word_tokens import encode_words, separators
from headspec.tasks.kinds.translation.encoding import ENCODING
from support.models import MODELS, TEXTS
from support.translators import classes

#: model: what separates and ends texts
SEPARATORS = {
    "bert": "[SEP]", "tinybert": "[SEP]", "electra": "[SEP]", "deberta": "[SEP]", "deberta-v3": "[SEP]",
    "albert": "[SEP]", "distilbert": "[SEP]", "modernbert": "[SEP]", "roberta": "</s>", "xlm-roberta": "</s>",
    "camembert": "</s>", "mpnet": "</s>", "gpt2": "<|endoftext|>", "openai-gpt": "<unk>",
    "llama": "<s>", "mistral": "<s>", "qwen2": "<|endoftext|>", "qwen3": "<|endoftext|>",
}  # fmt: skip


TWO_TYPES = {"bert", "tinybert", "electra", "albert"}
#: models whose positions are relative: they take any length
RELATIVE = ("deberta", "deberta-v3")


@pytest.fixture(scope="module", params=MODELS)
def loaded(request, model_folder):
    folder = model_folder(request.param)
    found = tokenizer(Model(source=str(folder)), "models.tiny")
    return request.param, found, AutoConfig.from_pretrained(folder).to_dict()


def test_separators_and_types_of_the_texts_of_a_pair(loaded):
    name, found, _ = loaded
    assert found.convert_ids_to_tokens(list(separators(found))) == [SEPARATORS[name]]
    types = found("the old house", "our boat").get("token_type_ids", [])
    assert {*types} == ({0, 1} if name in TWO_TYPES else set())


def test_every_token_belongs_to_its_word(loaded):
    """Tokens of a word spell it, and only special tokens belong to none."""
    _, found, config = loaded
    sentences = [text.split() for text in TEXTS[:20]]
    tokens, left_out = encode_words(found, sentences, config)
    assert list(tokens.examples.example) == list(range(20)) and not any(left_out.values())
    for words, numbers, ids in zip(sentences, tokens.words, tokens.examples.ids, strict=True):
        real = numbers[numbers >= 0]
        assert (np.diff(real) >= 0).all() and len(numbers) == len(ids)
        special = found.get_special_tokens_mask(ids, already_has_special_tokens=True)
        assert len(ids) - len(real) <= 2 and ((numbers < 0) <= np.array(special, dtype=bool)).all()
        for number, word in enumerate(words):
            spelled = found.decode([ids[i] for i in np.flatnonzero(numbers == number)])
            assert spelled.strip(" Ġ").replace(" ", "") == word  # Ġ: a space in byte pairs


def test_sentences_that_are_left_out(loaded):
    """Because a word has no tokens, or they are more than the model has positions."""
    name, found, config = loaded
    word, relative = TEXTS[0].split()[0], name in RELATIVE
    longest = 512 if name == "distilbert" else 62 if SEPARATORS[name] == "</s>" else 64
    fits = max(n for n in range(1, longest) if len(found(" ".join([word] * n))["input_ids"]) <= longest)
    sentences = [[word, word], [word] * fits, [word] * (fits + 1), [word, "\u200b", word]]
    tokens, left_out = encode_words(found, sentences, config)
    kept = list(tokens.examples.example)
    assert kept[:2] == [0, 1] and (2 in kept) == relative
    assert left_out == {"too_long": int(not relative), "lost_words": int(3 not in kept)}
    if not relative:
        problem = r"none of 1 sentences is left: 1 have more than the model's \d"
        with pytest.raises(ModelError, match=problem):
            encode_words(found, [[word] * 600], config)


def test_a_token_that_is_only_a_space_belongs_to_the_word_after_it():
    """As SentencePiece has them before words that it does not know."""

    def pieces(texts, **_):
        offsets = [[(0, 0), (0, 2), (2, 3), (3, 5), (5, 6), (0, 0)]]
        return {"input_ids": [[1, 2, 3, 4, 5, 6]], "offset_mapping": offsets,
                "special_tokens_mask": [[1, 0, 0, 0, 0, 1]]}  # fmt: skip

    pieces.is_fast = True
    tokens, _ = encode_words(pieces, [["ab", "cde"]], {"model_type": "bert"})
    assert tokens.words[0].tolist() == [-1, 0, 1, 1, 1, -1]


def test_words_of_tokenizers_that_do_not_say_where_their_tokens_are(model_folder):
    """Pieces join to words; a word that has none leaves out its sentence."""
    slow = tokenizer(Model(source=str(model_folder("marian"))), "m")
    assert not slow.is_fast
    sentences = [*(text.split() for text in TEXTS[:20]), ["boatboat", "the"], ["the", "\u200b", "boat"]]
    tokens, left_out = encode_words(slow, sentences, {"model_type": "t5"})
    assert left_out == {"too_long": 0, "lost_words": 1} and len(tokens.words) == 21
    several = 0
    for ids, words, sentence in zip(tokens.examples.ids, tokens.words, sentences[:21], strict=True):
        pieces = np.array(slow.convert_ids_to_tokens(ids))
        joined = ["".join(pieces[words == i]).replace("\u2581", "") for i in range(len(sentence))]
        assert joined == sentence and (words == -1).sum() == 1
        several += (np.bincount(words[words >= 0]) > 1).sum()
    assert several


@pytest.mark.parametrize("name", ["described", "t5", "marian"])
def test_sentences_are_read_as_sources_are(model_folder, name):
    """With the prefixes of the tasks in turn, whose tokens belong to no word."""
    prefixes = ["translate English: ", "say it in French: "]
    if name == "described":  # two tokens of languages
        languages = ("de", "fr")
        found = vocabulary.tokenizer(vocabulary.pieces(TEXTS, 48, languages, "k"))
        tasks = [classes("") | {"target_language": language} for language in languages]
        prefixes = [ENCODING.completed(found, task, 16, "tasks.a")["prefix"] for task in tasks]
    else:
        found = tokenizer(Model(source=str(model_folder(name))), "m")
    config = {"model_type": "t5"}  # of any length
    sentences = [text.split() for text in TEXTS[:20]]
    tokens, left_out = encode_words(found, sentences, config, prefixes)
    plain, _ = encode_words(found, sentences, config)
    assert not any(left_out.values())
    for row, (ids, words) in enumerate(zip(tokens.examples.ids, tokens.words, strict=True)):
        assert list(ids) == found(prefixes[row % 2] + TEXTS[row])["input_ids"]
        assert list(words[words >= 0]) == list(plain.words[row][plain.words[row] >= 0])
        expected = np.array(plain.examples.ids[row])[plain.words[row] >= 0]
        assert list(np.array(ids)[words >= 0]) == list(expected)
        assert len(words) > len(plain.words[row])
