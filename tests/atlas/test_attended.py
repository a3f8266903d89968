"""What heads attend to most, against a loop over words, in every architecture; and roles of a model."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest
import torch

from headspec.atlas.attended import ATTENDED, attended, most_attended
from headspec.data.sources.treebank import TREEBANK
from headspec.models.devices import Device
from headspec.models.internals.attention_maps import attention_maps
from headspec.models.multitask import MultiTask
from headspec.models.tokens.tokenization import tokenizer
from headspec.models.tokens.word_tokens import WordTokens
from headspec.statistics.atlas.roles import POSITIONAL, RARE, ROLES, SYNTACTIC, roles
from headspec.tables import read, write
from support import tiny
from support.models import TEXTS, make
from support.tiny import CPU, HEADS, LAYERS, by_family, encoder

KEYS = ["sentence", "layer", "head"]


def sentences(n: int = 9) -> WordTokens:
    """Random tokens in words of one to three, with a special token at the start, at the end, or at both."""
    rng, examples = np.random.default_rng(3), tiny.examples(n, shortest=5)
    words = []
    for i, length in enumerate(examples.lengths):
        of_tokens = np.repeat(np.arange(length), rng.integers(1, 4, length))[:length]
        if i % 3 != 0:
            of_tokens = np.r_[-1, of_tokens[:-1]]
        if i % 3 != 1:
            of_tokens = np.r_[of_tokens[:-1], -1]
        words.append(of_tokens)
    return WordTokens(examples, words)


@pytest.mark.parametrize("kind", by_family())
@torch.no_grad()
def test_most_attended_equals_a_loop(kind):
    model, given = MultiTask(encoder(kind), "mean", {}), sentences()
    frame = most_attended(model, given, Device("cpu", None, tokens=40))
    assert len(frame) == 9 * LAYERS * HEADS
    found = frame.set_index(["sentence", "layer", "head"])
    for row, of_tokens in enumerate(given.words):
        maps = []
        with attention_maps(model.gates, lambda layer, weights: maps.append(weights[0].numpy())):  # noqa: B023
            model.pool(given.examples.batch(np.array([row])))
        real = np.flatnonzero(of_tokens >= 0)
        places = [np.flatnonzero(of_tokens == word) for word in range(of_tokens.max() + 1)]
        for layer in range(LAYERS):
            for head in range(HEADS):
                weights, mine = maps[layer][head], found.loc[(row, layer, head)]
                assert mine["tokens"].tolist() == [real[np.argmax(weights[i, real])] - i for i in real]
                between = [[weights[np.ix_(a, b)].sum(1).mean() for b in places] for a in places]
                assert mine["words"].tolist() == [int(np.argmax(of)) - i for i, of in enumerate(between)]


@pytest.fixture(scope="module")
def bert(tmp_path_factory):
    folder = make("bert", tmp_path_factory.mktemp("models") / "bert")
    model = MultiTask(encoder("bert", vocab_size=97), "mean", {}).eval()
    return model, tokenizer(SimpleNamespace(source=str(folder)), "models.tiny")


def bank(n: int = 120) -> pd.DataFrame:
    """Texts in which each word depends on the one before."""
    words = [TEXTS[i % 200].split() for i in range(n)]
    heads = [list(range(len(row))) for row in words]
    relations = [["root"] + ["next"] * (len(row) - 1) for row in words]
    columns = {"words": words, "head": heads, "relation": relations}
    return pd.DataFrame({"sentence": range(n), "name": [str(i) for i in range(n)], **columns})


def test_roles_of_a_model(bert, tmp_path):
    model, words = bert
    write(tmp_path / "treebank.parquet", TREEBANK, bank(), {})
    sentences = read(tmp_path / "treebank.parquet")
    frame, counts = attended(model, words, sentences, 100, CPU)
    write(tmp_path / "attended.parquet", ATTENDED, frame, {})
    frame = roles(read(tmp_path / "attended.parquet"), sentences)
    assert counts == {"sentences": 100, "too_long": 0, "lost_words": 0}
    assert frame["role"].value_counts().to_dict() == {
        POSITIONAL: LAYERS * HEADS, RARE: LAYERS * HEADS, SYNTACTIC: 2 * LAYERS * HEADS,
    }  # fmt: skip
    found = frame[frame["role"] == SYNTACTIC]
    assert (found["baseline"] == 1).all() and not found["claimed"].any()  # a fixed offset is always right
    write(tmp_path / "roles.parquet", ROLES, frame, {})
    assert len(read(tmp_path / "roles.parquet")) == len(frame)


def test_a_planted_head_is_found(bert, monkeypatch):
    """Weights of one head of the real model are replaced, for the next token and for the first word."""
    model, words = bert

    def receiving(planted):
        """`attention_maps` with the weights of head 2 in layer 1 replaced."""

        def maps(encoder, receive):
            def changed(layer, weights):
                if layer == 1:
                    weights = weights.clone()
                    weights[:, 2] = planted(weights.shape[-1])
                receive(layer, weights)

            return attention_maps(encoder, changed)

        return maps

    monkeypatch.setattr(
        "headspec.atlas.attended.attention_maps", receiving(lambda n: torch.eye(n).roll(1, dims=1))
    )
    frame = roles(attended(model, words, bank(), 100, CPU)[0].sort_values(KEYS), bank())
    claimed = frame[frame["claimed"]]
    assert claimed[["layer", "head", "role", "offset", "rate"]].values.tolist() == [
        [1, 2, POSITIONAL, 1, 1.0]
    ]
    plain = bank()
    plain[["head", "relation"]] = None
    monkeypatch.setattr(
        "headspec.atlas.attended.attention_maps", receiving(lambda n: (torch.arange(n) == 1).float())
    )
    plain["words"] = [[f"{'ab'[i % 2]}{i}", *row] for i, row in enumerate(plain["words"])]
    frame = roles(attended(model, words, plain, 100, CPU)[0].sort_values(KEYS), plain)
    claimed = frame[frame["claimed"]]
    assert claimed[["layer", "head", "role"]].values.tolist() == [[1, 2, RARE]]
    assert claimed["rate"].item() == 1 and set(frame["role"]) == {POSITIONAL, RARE}
