"""Sizes of a model's files that disagree are refused while planning, with both numbers."""

import json
from pathlib import Path
from typing import Any

import pytest

from headspec.config.sections.model import Model
from headspec.errors import EncoderError
from headspec.models.pretrained import checks
from headspec.models.tokens.tokenization import tokenizer as loaded
from support.running.studies import WORDS, bert, local_model, tokenizer


def refused(path: Path, **settings: Any) -> str:
    with pytest.raises(EncoderError) as error:
        checks.check_model(path, Model(source=str(path), **{"max_length": 16} | settings), "models.m")
    return str(error.value)


def configure(path: Path, **settings: Any) -> None:
    file = path / "config.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | settings))


def test_sizes_that_agree(tmp_path):
    path = local_model(tmp_path)
    checks.check_model(path, Model(source=str(path), max_length=32), "models.m")
    bert(vocab_size=len(WORDS) + 40).save_pretrained(path)  # embeddings without tokens do no harm
    checks.check_model(path, Model(source=str(path), max_length=32), "models.m")


def test_more_tokens_than_embeddings(tmp_path):
    path = local_model(tmp_path)
    more = tokenizer()
    more.add_tokens(["[CITY]", "[TOWN]"])
    more.save_pretrained(path)
    numbers = f"has {len(WORDS) + 2} tokens, but the model has embeddings for {len(WORDS)} (vocab_size"
    assert numbers in refused(path)
    (path / "model.safetensors").unlink()  # what a hub model that is not here leaves to jobs
    with pytest.raises(EncoderError) as error:
        loaded(Model(source=str(path)), "models.m")
    assert numbers in str(error.value)


@pytest.mark.parametrize("file", ["vocab.txt", "vocab.json"])
def test_more_words_in_other_files(tmp_path, file):
    path = local_model(tmp_path)
    (path / "tokenizer.json").unlink()
    words = [f"w{i}" for i in range(len(WORDS) + 5)]
    (path / file).write_text(json.dumps(dict.fromkeys(words)) if file.endswith("json") else "\n".join(words))
    (path / "added_tokens.json").write_text('{"[CITY]": 1}')
    assert f"has {len(WORDS) + 6} tokens, but the model has embeddings for {len(WORDS)}" in refused(path)


def test_separators_of_lines_are_tokens(tmp_path):
    """As in vocabularies of BERT for many languages."""
    path = local_model(tmp_path)
    (path / "tokenizer.json").unlink()
    words = [*WORDS[:-3], "\u2028", "\x85", "\x0b"]
    (path / "vocab.txt").write_text("".join(f"{word}\n" for word in words), "utf-8")
    checks.check_model(path, Model(source=str(path), max_length=16), "models.m")


@pytest.mark.parametrize("shards", ["1MB", "3KB"])
@pytest.mark.parametrize(
    ("name", "size", "rows"),
    [("vocab_size", len(WORDS) + 3, len(WORDS)), ("max_position_embeddings", 64, 32)],
)
def test_more_in_the_config_than_in_the_weights(tmp_path, name, size, rows, shards):
    path = local_model(tmp_path)
    (path / "model.safetensors").unlink()
    bert().save_pretrained(path, max_shard_size=shards)
    configure(path, **{name: size})
    assert f"has {name} {size}, but its weights have embeddings for {rows}" in refused(path)


def test_texts_longer_than_positions(tmp_path):
    path = local_model(tmp_path)
    assert "models.m.max_length: got 33, but" in (message := refused(path, max_length=33))
    assert "has positions for 32 tokens" in message
