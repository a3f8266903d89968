"""Rows that begin with the same tokens: the prefix is read once, with the results of whole passes."""

import functools
import itertools

import numpy as np
import pandas as pd
import pytest
import torch
from transformers import DynamicCache, LlamaModel

from headspec.heads.masks import Mask
from headspec.heads.pruning import under_masks
from headspec.models import shared_prefix
from headspec.models.architectures import caches
from headspec.models.batching import LEAST_SHARED, Batch, Examples
from headspec.models.devices import Device
from headspec.models.language import cache_name
from headspec.models.multitask import MultiTask
from support import tiny
from support.language import NAMES, renamed
from support.tiny import TYPES

PREFIX = 20
#: type, settings
KINDS = [(kind, {}) for kind in TYPES if caches({"model_type": kind})] + [
    ("llama", {"num_key_value_heads": 4})
]


def prompts(prefix: int = PREFIX, n: int = 7, continued: bool = False) -> Examples:
    """Examples of 1 to 9 tokens after the same `prefix` tokens, perhaps with two continuations of 2 and 3."""
    rng = np.random.default_rng(0)
    shared = rng.integers(5, tiny.VOCABULARY, prefix).tolist()
    ids = [[*shared, 5 + i, *rng.integers(5, tiny.VOCABULARY, i + i % 3).tolist()] for i in range(n)]
    frame = pd.DataFrame({"example": range(n), "label": np.arange(n) % 2.0, "input_ids": ids})
    if continued:
        frame["continuations"] = [[[7, 8 + i], [7, 9, 10]] for i in range(n)]
    return Examples(frame.assign(token_type_ids=None))


def model(kind: str, **settings) -> MultiTask:
    torch.manual_seed(1)
    return MultiTask(tiny.encoder(kind, **settings), "last", {"task": ["a", "b"]}).eval()


def read_tokens(net: MultiTask) -> list[int]:
    """The tokens of every pass of the encoder from now on."""
    read: list[int] = []
    net.encoder.register_forward_pre_hook(
        lambda _, __, inputs: read.append(inputs["input_ids"].numel()), with_kwargs=True
    )
    return read


@torch.no_grad()
@pytest.mark.parametrize("attention", ["sdpa", "eager"])
@pytest.mark.parametrize("continued", [False, True])
@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_states_are_those_of_whole_passes(kind, settings, continued, attention):
    """Of all tokens, the prefix included, whatever the pooling."""
    joint = model(kind, attn_implementation=attention, **settings)
    batch = prompts(continued=continued).batch(np.arange(7))
    real = batch.attention_mask.bool()

    def states(prefix: int) -> torch.Tensor:
        batch.prefix = prefix
        return joint.output(batch).last_hidden_state[real]

    drawn = torch.from_numpy(np.random.default_rng(2).random((tiny.LAYERS, tiny.HEADS)) > 0.3).float()
    with joint.gates.at(drawn):
        whole = states(0)
        read = read_tokens(joint)
        torch.testing.assert_close(states(PREFIX), whole, rtol=1e-4, atol=1e-5)
        assert read == [PREFIX, 7 * (batch.input_ids.shape[1] - PREFIX)]
    change = (states(PREFIX) - whole).abs()
    assert min(change[:PREFIX].max(), change[PREFIX:].max()) > 1e-2, "gates act on both"


def masks(n: int) -> list[Mask]:
    rng = np.random.default_rng(0)
    return [Mask("random", None, 0.2, draw, rng.random((tiny.LAYERS, tiny.HEADS)) < 0.2) for draw in range(n)]


@pytest.mark.parametrize(
    ("kind", "once"), [("llama", True), ("gpt2", True), ("openai-gpt", False), ("bert", False)]
)
def test_pruning_reads_the_prefix_once_for_a_batch_and_mask(kind, once):
    joint, texts, rows = model(kind), prompts(n=12), np.arange(12)
    joint.new_classifiers({"task": None})  # a score, of which no difference is lost
    device = Device("cpu", None, tokens=100)
    assert joint.shares_prefix == once
    read = read_tokens(joint)
    predicted = under_masks(joint, "task", texts, rows, masks(3), device).values
    tokens = sum(read)
    texts.prefix = 0
    read.clear()
    whole = under_masks(joint, "task", texts, rows, masks(3), device).values
    np.testing.assert_allclose(predicted, whole, rtol=1e-3, atol=1e-4)
    assert np.ptp(predicted, axis=0).min() > 1e-3, "masks differ"
    batches = texts.in_length_order(rows, device, PREFIX)
    padded = [(len(batch), int(texts.lengths[batch].max())) for batch in batches]
    once_read = sum(PREFIX + n * (longest - PREFIX) for n, longest in padded)
    assert tokens == (3 * once_read if once else sum(read))
    assert 3 * once_read < 0.8 * sum(read)


def test_batches_hold_as_many_rows_as_their_own_tokens_allow():
    texts, rows = prompts(prefix=40, n=8), np.arange(8)
    longest = texts.lengths.max()
    device = Device("cpu", None, tokens=2 * longest)
    assert [len(batch) for batch in texts.in_length_order(rows, device)] == [2, 2, 2, 2]
    first = next(texts.in_length_order(rows, device, 40))
    assert len(first) == 2 * longest // (longest - 40 + 5)  # of the prefix, an eighth


def test_prefixes():
    assert prompts().prefix == PREFIX
    assert prompts(prefix=LEAST_SHARED - 1).prefix == 0, "too few tokens"
    assert prompts(n=1).prefix == PREFIX, "a token remains to every row"
    assert prompts(prefix=40, continued=True).prefix == 40
    typed = prompts()
    typed.token_types = [[0] * n for n in typed.lengths]
    assert typed.prefix == 0, "types of tokens are not told apart here"


def test_a_row_alone_is_read_whole():
    found = []

    def compute(batch: Batch) -> torch.Tensor:
        found.append(batch.prefix)
        return torch.zeros(len(batch.rows))

    for device in (Device("cpu", None, tokens=1), Device("cpu", None)):
        prompts(n=2).values(compute, np.arange(2), device, prefix=PREFIX)
    assert found == [0, 0, PREFIX]


MIXED = {"layer_types": ["sliding_attention", "full_attention", "sliding_attention"]}
#: types whose layers have windows, in some of them or in all
WINDOWS = {
    "mistral": {},
    "gemma2": MIXED,
    "gemma3_text": MIXED,
    "cohere2": MIXED,
    "olmo3": MIXED,
    "qwen2": MIXED | {"use_sliding_window": True},
    "qwen3": {"use_sliding_window": True, "max_window_layers": 0},
    "gpt_oss": MIXED | {"num_local_experts": 4, "num_experts_per_tok": 2},
    "llama4_text": {
        "layer_types": ["chunked_attention", "full_attention", "chunked_attention"],
        "num_local_experts": 2, "intermediate_size_mlp": 48,
    },
}  # fmt: skip


@torch.no_grad()
@pytest.mark.parametrize(
    ("kind", "attention"),
    [(kind, "eager") for kind in WINDOWS] + [(kind, "sdpa") for kind in ("mistral", "qwen2", "qwen3")],
)
def test_windows_shorter_than_the_prefix_or_the_text_change_no_state(kind, attention):
    ids = torch.randint(5, tiny.VOCABULARY, (3, 12))
    ids[:, :9] = ids[0, :9]
    mask = torch.ones_like(ids)
    mask[1, 11] = 0
    found = []
    for window in (4, 11, 64):
        sizes = {"sliding_window": window, "attention_chunk_size": window, "attn_implementation": attention}
        encoder = tiny.encoder(kind, num_key_value_heads=2, head_dim=8, **sizes, **WINDOWS[kind])
        assert shared_prefix.can_share_prefix(encoder)
        whole = encoder(input_ids=ids, attention_mask=mask, use_cache=False).last_hidden_state
        for prefix in (2, 6, 9):
            apart = shared_prefix.shared_prefix_output(
                encoder, prefix, {"input_ids": ids, "attention_mask": mask}
            )
            real = apart.last_hidden_state[mask.bool()]
            torch.testing.assert_close(real, whole[mask.bool()], rtol=1e-4, atol=1e-5)
        found.append(whole)
    assert min((one - other).abs().max() for one, other in itertools.pairwise(found)) > 1e-2, "windows act"


class Forgetful(LlamaModel):
    """A model that takes a cache, and does not use it."""

    @functools.wraps(LlamaModel.forward)
    def forward(self, *inputs, **others):
        return super().forward(*inputs, **others | {cache_name(self): DynamicCache()})


def test_a_prefix_is_read_by_either_name_of_the_cache():
    """The one that transformers 5.24 introduces, and the older one."""
    torch.manual_seed(0)
    usual, other = LlamaModel(tiny.encoder("llama").config).eval(), renamed(LlamaModel)
    model = other(usual.config).eval()
    model.load_state_dict(usual.state_dict())
    assert {cache_name(usual), cache_name(model)} == NAMES
    assert shared_prefix.can_share_prefix(model)
    ids = torch.arange(5, 29).view(2, 12).where(torch.arange(12) > 3, 7)
    given = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    states, expected = (shared_prefix.shared_prefix_output(each, 4, given)[0] for each in (model, usual))
    assert torch.equal(states, expected)


def test_models_that_do_not_continue_from_keys_and_values_read_no_prefix():
    """Those that remember states, do not read the cache, or see later tokens."""
    assert not shared_prefix.can_share_prefix(tiny.encoder("lfm2"))
    assert shared_prefix.can_share_prefix(tiny.encoder("lfm2", layer_types=["full_attention"] * 5))
    config = tiny.encoder("llama").config
    torch.manual_seed(0)
    assert shared_prefix.can_share_prefix(LlamaModel(config).eval())
    assert not shared_prefix.can_share_prefix(Forgetful(config).eval())
    assert model("llama").caches and not model("bert").caches
    assert not model("llama", is_causal=False).caches
