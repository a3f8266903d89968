"""Successor heads, built by hand so that their scores are known."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, LlamaConfig, Olmo2Config

import headspec
from headspec.heads.behaviours import successors
from headspec.heads.behaviours.probe import Probe
from support.model_types import any_model

WORDS, PLACES = 8, 16  # words of the sequence, and where the first layer's MLP writes them


class Letters:
    """A tokenizer whose tokens are letters; a space before one changes nothing, and other texts are two."""

    unk_token_id = bos_token_id = None
    all_special_ids = ()

    def __call__(self, text, add_special_tokens):
        word = text.strip()
        return {"input_ids": [ord(word) - ord("A")] if len(word) == 1 else [0, 1]}


ORDERS = {"letters": [*"ABCDEFGHA"]}


def built(config_class, **settings):
    """A decoder of three layers; the heads of the last read what the first MLP wrote of a token."""
    config = config_class(
        vocab_size=WORDS, hidden_size=32, intermediate_size=32, num_hidden_layers=3,
        num_attention_heads=4, num_key_value_heads=4, head_dim=8, tie_word_embeddings=False,
        max_position_embeddings=64, pad_token_id=None, **settings,
    )  # fmt: skip
    torch.manual_seed(0)
    model = AutoModelForCausalLM.from_config(config).eval()
    unit = torch.eye(32)
    with torch.no_grad():
        model.model.embed_tokens.weight.copy_(unit[:WORDS])
        model.lm_head.weight.copy_(unit[:WORDS])
        first, middle, last = model.model.layers
        first.mlp.gate_proj.weight.copy_(unit)
        first.mlp.up_proj.weight.copy_(unit)
        first.mlp.down_proj.weight.copy_(unit.roll(PLACES, 0))  # from word t to place PLACES + t
        for parameter in [*first.self_attn.parameters(), *middle.parameters()]:
            parameter.add_(3 * torch.randn_like(parameter))  # what no later head may see
        values, outputs = torch.zeros(32, 32), torch.zeros(32, 32)
        for head in range(4):
            values[8 * head : 8 * head + 8, PLACES : PLACES + 8] = torch.eye(8)
        for word in range(WORDS):
            outputs[(word + 1) % WORDS, word] = 1  # head 0: the next
            outputs[word, 8 + word] = 1  # head 1: the same
            outputs[(word + 1) % WORDS if word < 6 else word, 16 + word] = 1  # head 2: the next of six
            outputs[5, 24 + word] = 1  # head 3: always the same one
        last.self_attn.v_proj.weight.copy_(values)
        last.self_attn.o_proj.weight.copy_(outputs)
    return model


def scores(model, **given):
    table = headspec.head_behaviours(model, Letters(), ["successor"], orders=ORDERS, **given)
    return table[table["layer"] == 2].reset_index(drop=True)


def test_heads_built_by_hand_have_their_scores():
    table = scores(built(LlamaConfig))
    np.testing.assert_allclose(table["score"], [1, 0, 6 / 8, 1 / 8])
    assert table["above"].tolist() == [True, False, True, False]
    assert table["control"][0] == 0 and table["control"][3] == 1 / 8


def test_the_control_is_the_token_before():
    (order,) = successors._orders(Probe(None, Letters(), None, 0, 0, 0, {}, orders=ORDERS))
    assert order.tokens == [*range(8)] and order.following == [1, 2, 3, 4, 5, 6, 7, 0]
    assert order.before == [7, 0, 1, 2, 3, 4, 5, 6]


def test_norms_after_w_o_count():
    """In OLMo 2, whose norm after attention closes half of the states here."""
    model = built(Olmo2Config)
    last = model.model.layers[-1]
    with torch.no_grad():
        last.self_attn.o_proj.weight[20:28, :8] = 2 * torch.eye(8)  # nine tenths of head 0, at other places
        model.lm_head.weight[:, 20:28] = torch.eye(8)  # which are the same word's
    assert scores(model)["score"].tolist() == [0, 0, 6 / 8, 1 / 8]
    with torch.no_grad():
        last.post_attention_layernorm.weight[20:28] = 0
    assert scores(model)["score"].tolist() == [1, 0, 6 / 8, 1 / 8]


@pytest.mark.parametrize("kind", ["pythia", "gemma2", "opt", "bloom", "mixtral", "deepseek-v3", "ragged"])
def test_models_of_any_type_are_measured(kind):
    model = any_model.model(kind).eval()
    before = [value.clone() for value in model.state_dict().values()]
    table = headspec.head_behaviours(model, Letters(), ["successor"], orders=ORDERS)
    assert len(table) and table["score"].between(0, 1).all() and table["score"].nunique() > 1
    after = model.state_dict().values()
    assert all(torch.equal(old, new) for old, new in zip(before, after, strict=True))


@pytest.mark.thorough
def test_random_heads_are_above_as_seldom_as_said():
    found, orders, models = [], {"letters": [*"ABCDEFGHIJKLMNOPQRSTUVWXYZ"]}, 200
    for seed in range(models):
        model = any_model.model("pythia", seed=seed).eval()
        table = headspec.head_behaviours(
            model, Letters(), ["successor"], orders=orders, confidence=0.8, seed=seed
        )
        found.append(table["above"].any())
    assert np.mean(found) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / models)
