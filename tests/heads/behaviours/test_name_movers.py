"""Name movers, built by hand so that what they attend to and write is known."""

import numpy as np
import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import WhitespaceSplit
from transformers import AutoModelForCausalLM, LlamaConfig, PreTrainedTokenizerFast

import headspec

#: the first four are names, the last ends a prompt
WORDS = ["Ann", "Bob", "Cid", "Dan", "met", "and", "gave", "to"]
PLACES = 16  # where the first layer writes what a token is
PROMPTS = [
    ("Ann and Bob met Bob gave to", "Ann", "Bob"),
    ("Bob and Ann met Bob gave to", "Ann", "Bob"),
    ("Cid and Dan met Cid gave to", "Dan", "Cid"),
    ("Dan and Cid met Cid and Cid gave to", "Dan", "Cid"),
]


def tokenizer():
    plain = Tokenizer(WordLevel({word: i for i, word in enumerate(WORDS)}, unk_token="met"))
    plain.pre_tokenizer = WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=plain, unk_token="met")


def built(answers: list[str]) -> torch.nn.Module:
    """A decoder whose last layer attends from the end to these names, in all heads but the third.

    The heads copy what they read, write the contrary of it, copy it, and always write the same name.
    """
    config = LlamaConfig(
        vocab_size=8, hidden_size=32, intermediate_size=32, num_hidden_layers=2, num_attention_heads=4,
        num_key_value_heads=4, head_dim=8, tie_word_embeddings=False, max_position_embeddings=64,
        pad_token_id=None, bos_token_id=None, eos_token_id=None,
    )  # fmt: skip
    model, unit = AutoModelForCausalLM.from_config(config).eval(), torch.eye(32)
    with torch.no_grad():
        for weight in model.parameters():
            weight.zero_() if weight.dim() == 2 else weight.fill_(1)
        first, last = model.model.layers
        model.model.embed_tokens.weight.copy_(unit[:8])
        model.lm_head.weight.copy_(unit[:8])
        first.mlp.gate_proj.weight.copy_(unit)
        first.mlp.up_proj.weight.copy_(unit)
        first.mlp.down_proj.weight.copy_(unit.roll(PLACES, 0))  # from word t to place PLACES + t
        attention = last.self_attn
        for head in range(4):
            # heads of the first layer write where none of the last reads
            first.self_attn.v_proj.weight[8 * head : 8 * head + 8, :8] = torch.eye(8)
            first.self_attn.o_proj.weight[24:, 8 * head : 8 * head + 8] = torch.eye(8) / 10
            attention.v_proj.weight[8 * head : 8 * head + 8, PLACES : PLACES + 8] = torch.eye(8)
            slow = 8 * head + 3  # of the rotary embedding, which turns least here
            attention.q_proj.weight[slow, PLACES + 7] = 0 if head == 2 else 4
            attention.k_proj.weight[slow, [PLACES + WORDS.index(word) for word in answers]] = 4
        for word in range(8):
            attention.o_proj.weight[word, word] = 1
            attention.o_proj.weight[word, 8 + word] = -1
            attention.o_proj.weight[word, 16 + word] = 1
            attention.o_proj.weight[0, 24 + word] = 1
    return model


def found(model, prompts=PROMPTS, **given):
    table = headspec.head_behaviours(model, tokenizer(), ["name_mover"], prompts=prompts, **given)
    return table[table["layer"] == 1].set_index("head")


def test_a_name_mover_attends_to_the_answer_and_writes_it():
    """Not one that writes its contrary, one that attends to all, or one that writes the same name always."""
    model = built(["Ann", "Dan"])
    table = found(model)
    assert table["above"].tolist() == [True, False, False, False]
    maps = [
        headspec.attention_maps(model, tokenizer()(prompt, return_tensors="pt"), {1: [0, 2]})
        for prompt, *_ in PROMPTS
    ]
    for head in (0, 2):
        for column, which in (("score", 1), ("control", 2)):
            weights = [
                each[1, head][0, -1][[word == prompt[which] for word in prompt[0].split()]].sum()
                for each, prompt in zip(maps, PROMPTS, strict=True)
            ]
            assert table.loc[head, column] == pytest.approx(np.mean(weights), abs=1e-6)
    assert table.loc[0, "score"] > 0.9 and table.loc[1, ["score", "control"]].tolist() == [0, 0]
    assert 0 < table.loc[3, "score"] < 0.6 and table.loc[3, "control"] == 0  # of Ann alone


def test_heads_that_attend_to_the_other_name_are_none():
    table = found(built(["Bob", "Cid"]))
    assert table.loc[0, "control"] > 0.9 and not table["above"].any()


@pytest.mark.thorough
def test_random_heads_are_above_as_seldom_as_said():
    """With either name as the answer, as often."""
    swapped = [(prompt, other, answer) for prompt, answer, other in PROMPTS]
    hits, models = [], 200
    for seed in range(models):
        model = built(["Ann", "Dan"])
        rng = np.random.default_rng(seed)
        with torch.random.fork_rng(), torch.no_grad():
            torch.manual_seed(seed)
            for layer in model.model.layers:
                for weight in layer.self_attn.parameters():
                    weight.copy_(torch.randn_like(weight))
        prompts = [pair[rng.integers(2)] for pair in zip(PROMPTS * 2, swapped * 2, strict=True)]
        hits.append(found(model, prompts, confidence=0.8)["above"].any())
    assert np.mean(hits) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / models)
