"""Language models: loading, and logits of some tokens."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from accelerate.utils import align_module_device
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from headspec.errors import ModelError
from headspec.models.attention.placement import device_of
from headspec.models.attention.projections import is_packed
from headspec.models.pretrained import from_pretrained

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def cache_name(model: PreTrainedModel) -> str:
    """Return the name of the argument and output for cached keys and values; transformers 5.24 renamed it."""
    return "cache" if "cache" in inspect.signature(model.forward).parameters else "past_key_values"


#: number of tokens on which a head is compared with its model
TOKENS = 8
#: relative tolerance for equal numbers, in float32, and with weights in bfloat16 or packed
TOLERANCE, HALF_TOLERANCE = 1e-4, 2**-6
#: maximum number of logits at once, so that memory does not grow with the vocabulary
LOGITS = 2**26
#: errors raised by code that needs more than an encoder's last states
UNFIT = (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError)


class LanguageHead(nn.Module):
    """The head of a causal or masked language model: states (n, hidden) to logits (n, tokens), float32.

    Models transform states before the output embedding, and logits after it. The model's own code therefore
    runs, with shared weights and an encoder that returns the given states. It runs in float32 even under
    autocast: in bfloat16, logits between 16 and 32 are multiples of an eighth, so answers often tie. `bias`,
    (tokens,), is added to the logits of a restricted head; it is 0 unless calibrated.
    """

    def __init__(self, model: PreTrainedModel) -> None:
        super().__init__()
        output = model.get_output_embeddings()
        (self.place,) = (name for name, module in model.named_modules() if module is output)
        self.model: Any = copy.deepcopy(model, {**_weights(model), id(model.base_model): _States()})
        self.bias: nn.Parameter | None = None

    @property
    def tokens(self) -> nn.Linear:
        """Return the output embedding, a row for every token."""
        embedding: nn.Linear = self.model.get_submodule(self.place)
        return embedding

    def restricted(self, tokens: Sequence[int]) -> LanguageHead:
        """Return a head for only some tokens, with its own weights."""
        output = self.tokens
        hooks = (vars(module).get("_hf_hook") for module in self.model.modules())
        head = copy.deepcopy(self, {id(each): each for each in (output, *output.parameters(), *hooks)})
        rows = nn.Linear(output.in_features, len(tokens), device=device_of(self.model))
        with torch.no_grad(), align_module_device(output):
            rows.weight.copy_(output.weight[list(tokens)])
            rows.bias.copy_(output.bias[list(tokens)] if output.bias is not None else 0)
        head.model.set_submodule(self.place, rows)
        for module in head.model.modules():  # some hold the bias of the output embedding twice
            if output.bias is not None and getattr(module, "bias", None) is output.bias:
                module.register_parameter("bias", None)
        head.bias = nn.Parameter(torch.zeros_like(rows.bias))
        return head

    def whole_model(self, encoder: PreTrainedModel) -> PreTrainedModel:
        """Return the whole language model of an `encoder` and this head, with shared weights, to `generate`.

        Its logits are in float32 even under autocast, as in `forward`.
        """
        shared = {**_weights(self.model), id(self.model.base_model): encoder}
        whole: PreTrainedModel = copy.deepcopy(self.model, shared)
        output: Any = whole.get_submodule(self.place)
        inner = output.forward

        def exact(states: torch.Tensor) -> Any:
            with torch.autocast(states.device.type, enabled=False):
                return inner(states.float())

        output.forward = exact
        return whole

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        """Return logits (n, tokens) from states (n, hidden)."""
        self.model.base_model.states = states[:, None].float()
        unread = torch.zeros(len(states), 1, dtype=torch.long, device=states.device)
        with torch.autocast(states.device.type, enabled=False):
            logits: torch.Tensor = self.model(input_ids=unread, attention_mask=unread + 1).logits[:, 0]
        return logits if self.bias is None else logits + self.bias


def _weights(model: nn.Module) -> dict[int, Any]:
    """Return what copies of a model share, by id: weights, and hooks that hold those off their device."""
    hooks = (vars(module).get("_hf_hook") for module in model.modules())  # of accelerate
    return {id(each): each for each in [*model.parameters(), *model.buffers(), *hooks]}


class _States(nn.Module):
    """An encoder that returns given states."""

    states: torch.Tensor | None = None

    @property
    def decoder(self) -> _States:
        """Return itself, because some models call a part of their encoder (OPT)."""
        return self

    def forward(self, *_: Any, **__: Any) -> _Output:
        given, self.states = self.states, None  # so that the graph of a batch does not stay in memory
        return _Output([given])


class _Output(tuple[Any, ...]):
    """The output of an encoder: its last states, and None for everything else that code may ask for."""

    def __getattr__(self, name: str) -> torch.Tensor | None:
        return self[0] if name == "last_hidden_state" else None


def log_probabilities(head: LanguageHead, states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
    """Return the log-probability of the token (n,) after each state (n, hidden), (n,) float32."""

    def part(states: torch.Tensor, tokens: torch.Tensor) -> torch.Tensor:
        return -F.cross_entropy(head(states), tokens, reduction="none")

    at_once = max(1, LOGITS // head.tokens.out_features)
    if len(states) <= at_once:
        return part(states, tokens)
    parts = zip(states.split(at_once), tokens.split(at_once), strict=True)
    return torch.cat([checkpoint(part, *given, use_reentrant=False) for given in parts])


def half(model: PreTrainedModel) -> bool:
    """Return whether a model has weights in bfloat16."""
    return any(parameter.dtype == torch.bfloat16 for parameter in model.parameters())


def near(computed: torch.Tensor, expected: torch.Tensor, model: PreTrainedModel) -> bool:
    """Return whether two tensors computed by a model are equal up to rounding."""
    coarse = half(model) or any(map(is_packed, model.modules()))  # int8 rounds activations, too
    most = expected.abs().max() * (HALF_TOLERANCE if coarse else TOLERANCE)
    return computed.shape == expected.shape and bool((computed - expected).abs().max() <= most)


@torch.no_grad()
def check_head(model: PreTrainedModel, where: str) -> None:
    """Raise ModelError, naming `where`, if `LanguageHead` does not compute a model's logits."""
    ids = torch.arange(TOKENS, device=device_of(model))[None] % model.get_input_embeddings().num_embeddings
    inputs, some = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, ids[0, 1::2]
    refused, model_class = f"{where} cannot be prompted", type(model).__name__
    with torch.autocast(ids.device.type, torch.bfloat16, enabled=half(model)):
        own = model(**inputs).logits[0].float()
    try:
        with torch.autocast(ids.device.type, torch.bfloat16, enabled=half(model)):
            states = model.base_model(**inputs).last_hidden_state[0]
        head = LanguageHead(model)
        pairs = [(head(states), own), (head.restricted(some.tolist())(states), own[:, some])]
    except UNFIT as error:
        raise ModelError(
            f"{refused}: the head of {model_class} needs more than the last states of its encoder ({error})"
        ) from None
    if not all(near(computed, expected, model) for computed, expected in pairs):
        raise ModelError(
            f"{refused}: from the last states of its encoder, its head computes other logits than "
            f"{model_class} returns"
        )


def load_language_model(
    path: Path,
    where: str,
    causal: bool = True,
    dtype: str = "fp32",
    quantization: str | None = None,
    **placed: Any,
) -> PreTrainedModel:
    """Load the causal or masked language model at `path`.

    `where` names the config key and the source in errors; `dtype` and `quantization` are as in the config,
    `placed` as in `from_pretrained.load`.
    Raises ModelError if it cannot be loaded, has no language-model head, or `LanguageHead` computes other
    logits.
    """
    from transformers import AutoModelForCausalLM, AutoModelForMaskedLM

    loading = AutoModelForCausalLM if causal else AutoModelForMaskedLM
    try:
        model, missing = from_pretrained.load(loading, path, dtype, quantization, **placed)
    except (OSError, ValueError, RuntimeError, KeyError) as error:
        raise ModelError(f"{where} cannot be loaded as a language model: {error}") from None
    if missing:
        raise ModelError(f"{where} has no language-model head: its weights lack {min(missing)}")
    check_head(model.eval(), where)
    return model
