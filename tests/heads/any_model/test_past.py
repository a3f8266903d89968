"""Batches with states of earlier tokens: scores and curves are those of the tokens written out."""

import copy

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import DynamicCache, StaticCache

import headspec
from headspec.heads.any_model.batches import rows
from headspec.heads.any_model.scores import SCORES
from headspec.models.attention.past import fresh
from support.model_types import any_model

READ = 3  # tokens whose states are given
KINDS = "pythia", "gemma2", "olmo2", "falcon-grouped", "ragged"


def dynamic(model):
    return DynamicCache(config=model.config)


def static(model):
    return StaticCache(config=model.config, max_cache_len=16)


def batches(kind, make=dynamic, sizes=(3, 2)):
    """A model, and its batches with and without states of their first tokens."""
    model = any_model.model(kind).eval()
    n, rng = sum(sizes), np.random.default_rng(len(kind))
    ids = torch.from_numpy(rng.integers(3, 60, (n, 8)))
    labels = ids.where(torch.arange(8) > READ, -100)
    whole = {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}
    parts = [{name: value[i:j] for name, value in whole.items()} for i, j in ((0, sizes[0]), (sizes[0], n))]
    given = []
    for part in parts:
        past = read(model, part["input_ids"], make)
        later = {name: part[name][:, READ:] for name in ("input_ids", "labels")}
        given.append({**later, "attention_mask": part["attention_mask"], "past_key_values": past})
    return model, given, parts


def read(model, ids, make=dynamic):
    """States of the first tokens, (n, tokens)."""
    past = make(model)
    with torch.no_grad():
        model(input_ids=ids[:, :READ], past_key_values=past)
    return past


def loop(model, given, whole):
    """Derivatives by gates of the model's own loss, an example and its own states at a time."""
    gates, found = headspec.HeadGates(model), []
    for batch, ids in zip(given, (part["input_ids"] for part in whole), strict=True):
        for i in range(len(ids)):
            one = {name: value[i : i + 1] for name, value in batch.items() if isinstance(value, torch.Tensor)}
            xi = torch.ones(gates.layers, gates.heads, requires_grad=True)
            past = read(model, ids[i : i + 1])
            with gates.at(xi):
                model(**one, past_key_values=past).loss.backward()
            found.append(xi.grad.numpy())
    return np.stack(found)


@pytest.mark.parametrize("kind", KINDS)
def test_scores_are_those_of_a_copy_of_the_states(kind):
    model, given, whole = batches(kind)
    lengths = [batch["past_key_values"].get_seq_length() for batch in given]
    expected = loop(model, given, whole)
    found = headspec.head_importance(model, given, per_example=True)
    exists = headspec.HeadGates(model).exists
    np.testing.assert_allclose(found[:, exists], expected[:, exists], rtol=1e-3, atol=1e-6)
    assert [batch["past_key_values"].get_seq_length() for batch in given] == lengths == [READ, READ]


@pytest.mark.parametrize("make", [dynamic, static])
@pytest.mark.parametrize("score", [name for name in SCORES if SCORES[name].donors != "corrupted"])
def test_every_score_takes_them_and_changes_none(score, make):
    """Closing a head for later tokens alone is what it is in both: gates act on the tokens of a pass."""
    model, given, _ = batches("pythia", make)
    first = headspec.head_importance(model, given, score=score)
    np.testing.assert_array_equal(headspec.head_importance(model, given, score=score), first)
    rest = [{**batch, "past_key_values": copy.deepcopy(batch["past_key_values"])} for batch in given]
    np.testing.assert_array_equal(headspec.head_importance(model, rest, score=score), first)
    assert all(batch["past_key_values"].get_seq_length() == READ for batch in given)


def test_ablation_is_a_gate_of_later_tokens():
    model, given, whole = batches("olmo2")
    found = headspec.head_importance(model, given, score="ablation", per_example=True)
    gates, losses = headspec.HeadGates(model), []

    def loss(batch, values):
        with torch.no_grad(), gates.at(values):
            logits = model(input_ids=batch["input_ids"]).logits[:, READ:-1]
        labels = batch["input_ids"][:, READ + 1 :]
        return torch.nn.functional.cross_entropy(logits.transpose(1, 2), labels, reduction="none").mean(1)

    for batch in whole:
        n = len(batch["input_ids"])
        values = torch.ones(n, 8, gates.layers, gates.heads)
        plain = loss(batch, values)
        values[:, READ:, 1, 2] = 0
        losses.append(loss(batch, values) - plain)
    np.testing.assert_allclose(found[:, 1, 2], torch.cat(losses), rtol=1e-3, atol=1e-5)


def test_a_curve_is_that_of_tokens_written_out():
    """Examples that differ only in the states of earlier tokens are different."""
    model, given, _ = batches("pythia", sizes=(3, 5))
    for batch in given:
        batch["input_ids"][:], batch["labels"][:] = batch["input_ids"][:1], batch["labels"][:1]
    curve = headspec.head_curve(model, given, fractions=[0.3], draws=5)
    again = headspec.head_curve(model, given, fractions=[0.3], draws=5)
    pd.testing.assert_frame_equal(curve, again)
    alone = [
        model(**{**batch, "past_key_values": copy.deepcopy(batch["past_key_values"])}).loss for batch in given
    ]
    everything = headspec.head_curve(
        model, given, scores=np.arange(8.0).reshape(2, 4), fractions=[0.3], draws=5
    )
    mean = (3 * alone[0].item() + 5 * alone[1].item()) / 8
    np.testing.assert_allclose(everything["value"][0], mean, rtol=1e-5)
    assert curve.attrs["n"] == 4


class Own(DynamicCache):
    """As some types and users derive their own."""


def own(model):
    past = Own(config=model.config)
    for layer in past.layers:
        layer.__class__ = type("Layer", (type(layer),), {"__module__": __name__})
    return past


@pytest.mark.parametrize("make", [dynamic, static, own])
def test_states_of_some_examples_are_theirs(make):
    """Also those of classes that a model derives from the caches of transformers."""
    model = any_model.model("pythia").eval()
    ids = any_model.ids(4, 8)
    batch = {"input_ids": ids[:, READ:], "past_key_values": read(model, ids, make)}
    chosen = torch.from_numpy(np.random.default_rng(0).permutation(4)[:2])
    part = rows(batch, chosen)
    with torch.no_grad():
        expected, found = (model(**fresh(each)).logits for each in (batch, part))
    torch.testing.assert_close(found, expected[chosen], rtol=1e-4, atol=1e-5)
