"""The heads of language models: their own logits, for all tokens and for some."""

import pytest
import torch
from transformers import AutoConfig, AutoModelForMaskedLM, LlamaForCausalLM, PreTrainedModel

from headspec.errors import ModelError
from headspec.models.language import LanguageHead, check_head, load_language_model
from support import tiny
from support.language import random

#: tokens of answers
SOME = [7, 3, 50]
#: type: settings; what its code does between states and logits, beside a product
CAUSAL: dict[str, dict] = {
    "gpt2": {},
    "openai-gpt": {},
    "llama": {},
    "mistral": {},
    "gemma2": {"final_logit_softcapping": 3.0, "head_dim": 8, "num_key_value_heads": 2},
    "cohere": {"logit_scale": 0.25},
    "granite": {"logits_scaling": 8.0},
    "opt": {"word_embed_proj_dim": 16, "ffn_dim": 48, "do_layer_norm_before": False},
    "phi": {},
    "bert": {"is_decoder": True},
}
MASKED = ("bert", "roberta", "electra", "albert", "deberta-v2", "distilbert", "mpnet", "modernbert")
KINDS = [(kind, False) for kind in CAUSAL] + [(kind, True) for kind in MASKED]
#: whose logits are no product of states and embeddings
OWN_LOGITS = ("gemma2", "cohere", "granite", "bert")


def made(kind: str, masked: bool = False) -> PreTrainedModel:
    settings = {"bos_token_id": 1, "eos_token_id": 2} | ({} if masked else CAUSAL[kind])
    return random(kind, masked, **settings)


@torch.no_grad()
def read(model: PreTrainedModel) -> tuple[torch.Tensor, torch.Tensor]:
    """The last states of random tokens, and the logits that the model returns."""
    ids = torch.randint(5, tiny.VOCABULARY, (2, 9))
    states = model.base_model(input_ids=ids).last_hidden_state
    return states.flatten(0, 1), model(input_ids=ids).logits.flatten(0, 1)


@torch.no_grad()
@pytest.mark.parametrize(("kind", "masked"), KINDS)
def test_logits_are_those_of_the_model(kind, masked):
    model = made(kind, masked)
    states, expected = read(model)
    head = LanguageHead(model)
    few = head.restricted(SOME)
    torch.testing.assert_close(head(states), expected, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(few(states), expected[:, SOME], rtol=1e-5, atol=1e-5)
    with torch.autocast("cpu", torch.bfloat16):
        assert torch.equal(few(states), few(states.clone())) and few(states).dtype == torch.float32
        torch.testing.assert_close(few(states.bfloat16()), few(states), rtol=0.1, atol=0.1)
    if not masked:  # what a bare product would give
        bare = model.get_output_embeddings()(states)
        assert torch.allclose(bare, expected, atol=1e-5) == (kind not in OWN_LOGITS)
    assert head.model.base_model.states is None, "no batch stays in memory"


@torch.no_grad()
def test_some_tokens_have_weights_of_their_own_and_biases_after_the_models_code():
    model = made("gemma2")
    states, expected = read(model)
    head = LanguageHead(model)
    few = head.restricted(SOME)
    own = {id(parameter) for parameter in model.parameters()}
    assert {id(parameter) for parameter in head.parameters()} <= own, "all tokens share the model's"
    assert not {id(parameter) for parameter in few.parameters()} & own
    assert few.tokens.weight.shape == (len(SOME), 32)
    few.bias.copy_(torch.tensor([1.0, -5.0, 0.5]))
    torch.testing.assert_close(few(states), expected[:, SOME] + few.bias)
    assert few(states).abs().max() > 3, "beyond the bound of the model's own"


@pytest.mark.parametrize("dtype", ["fp32", "bf16"])
@pytest.mark.parametrize(("kind", "masked"), [("gemma2", False), ("bert", False), ("bert", True)])
def test_models_are_checked_as_they_are_loaded(kind, masked, dtype, tmp_path):
    made(kind, masked).save_pretrained(tmp_path)
    load_language_model(tmp_path, "m", not masked, dtype)


class Reading(LlamaForCausalLM):
    """A model with logits only for tokens that it has not read."""

    def forward(self, input_ids, **inputs):
        output = super().forward(input_ids=input_ids, **inputs)
        output.logits = output.logits.scatter(-1, input_ids[..., None], -100.0)
        return output


def test_heads_that_need_more_than_states_are_refused():
    model = Reading(made("llama").config).eval()
    with pytest.raises(ModelError, match=r"m cannot be prompted: .* other logits than Reading returns"):
        check_head(model, "m")
    sizes = tiny._SIZE | {"embedding_size": 16, "intra_bottleneck_size": 32, "true_hidden_size": 32}
    bottled = AutoModelForMaskedLM.from_config(AutoConfig.for_model("mobilebert", **sizes)).eval()
    with pytest.raises(ModelError, match="m cannot be prompted: the head of MobileBertForMaskedLM needs"):
        check_head(bottled, "m")
