"""Sizes of a model's files that disagree are refused while planning, with both numbers."""

import json
from pathlib import Path

import pytest

from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.models.pretrained import checks
from headspec.models.tokens.tokenization import tokenizer as loaded
from support.data.model_files import configure
from support.running.studies import WORDS, bert, tokenizer

KNOWN = len(WORDS)


def check(folder: Path, max_length: int = 16) -> None:
    checks.check_model(folder, Model(source=str(folder), max_length=max_length), "models.m")


def refused(folder: Path) -> str:
    with pytest.raises(EncoderError) as caught:
        check(folder)
    return str(caught.value)


def test_sizes_that_agree(model):
    check(model, 32)
    bert(vocab_size=KNOWN + 40).save_pretrained(model)  # embeddings without tokens do no harm
    check(model, 32)


def test_more_tokens_than_embeddings(model):
    more = tokenizer()
    more.add_tokens(["[CITY]", "[TOWN]"])
    more.save_pretrained(model)
    numbers = f"has {KNOWN + 2} tokens, but the model has embeddings for {KNOWN} (vocab_size"
    assert numbers in refused(model)
    (model / "model.safetensors").unlink()  # what a hub model that is not here leaves to jobs
    with pytest.raises(EncoderError) as error:
        loaded(Model(source=str(model)), "models.m")
    assert numbers in str(error.value)


@pytest.mark.parametrize("file", ["vocab.txt", "vocab.json"])
def test_more_words_in_other_files(model, file):
    (model / "tokenizer.json").unlink()
    words = [f"w{i}" for i in range(KNOWN + 5)]
    (model / file).write_text(json.dumps(dict.fromkeys(words)) if file.endswith("json") else "\n".join(words))
    (model / "added_tokens.json").write_text('{"[CITY]": 1}')
    assert f"has {KNOWN + 6} tokens, but the model has embeddings for {KNOWN}" in refused(model)


def test_separators_of_lines_are_tokens(model):
    """As in vocabularies of BERT for many languages."""
    (model / "tokenizer.json").unlink()
    words = [*WORDS[:-3], "\u2028", "\x85", "\x0b"]
    (model / "vocab.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    check(model)


@pytest.mark.parametrize("shards", ["1MB", "3KB"])
@pytest.mark.parametrize(
    ("name", "size", "rows"), [("vocab_size", KNOWN + 3, KNOWN), ("max_position_embeddings", 64, 32)]
)
def test_more_in_the_config_than_in_the_weights(model, name, size, rows, shards):
    (model / "model.safetensors").unlink()
    bert().save_pretrained(model, max_shard_size=shards)
    configure(model, **{name: size})
    assert f"has {name} {size}, but its weights have embeddings for {rows}" in refused(model)
