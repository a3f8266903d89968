"""Reading the shared first tokens of a batch once; loads transformers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from transformers import Cache, DynamicCache
from transformers.cache_utils import DynamicLayer, DynamicSlidingWindowLayer
from transformers.modeling_outputs import BaseModelOutput

from headspec.models.attention.placement import device_of
from headspec.models.language import TOKENS, cache_name, near

if TYPE_CHECKING:
    from transformers import PreTrainedModel


class _Prefix(DynamicLayer):  # type: ignore[misc]  # mypy does not read transformers
    """Keys and values of the prefix in a layer; those of a row's own tokens follow but are not stored."""

    def __init__(self, read: DynamicLayer) -> None:
        super().__init__()
        self.lazy_initialization(read.keys, read.values)
        self.keys, self.values = read.keys, read.values  # (1, heads, prefix, size)

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *_: object, **__: object
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return keys and values, (batch, heads, tokens, size), after those of the prefix."""
        rows = len(key_states)
        keys, values = (each.expand(rows, -1, -1, -1) for each in (self.keys, self.values))
        return torch.cat([keys, key_states], dim=-2), torch.cat([values, value_states], dim=-2)


@torch.no_grad()
def can_share_prefix(encoder: PreTrainedModel) -> bool:
    """Return whether `shared_prefix_output` works for an encoder: by its layer types, and on a few tokens.

    Layers with a sliding window are masked in both passes. Layers that keep a state instead of keys and
    values (Mamba, convolutions), or share the keys of another layer, are not supported.
    """
    kinds = {type(layer) for layer in DynamicCache(config=encoder.config).layers}
    if kinds - {DynamicLayer, DynamicSlidingWindowLayer}:
        return False
    ids = torch.arange(2 * TOKENS, device=device_of(encoder)).reshape(2, -1)
    ids[:, : TOKENS // 2] = ids[0, : TOKENS // 2]
    inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    whole = encoder(**inputs, use_cache=False).last_hidden_state
    return near(shared_prefix_output(encoder, TOKENS // 2, inputs).last_hidden_state, whole, encoder)


def shared_prefix_output(
    encoder: PreTrainedModel, prefix: int, inputs: dict[str, torch.Tensor]
) -> BaseModelOutput:
    """Return the last states of ``encoder(**inputs)`` up to rounding, if `can_share_prefix` holds.

    All rows must have the same gates, and share the first `prefix` tokens with more to follow; the encoder
    reads the prefix as a separate row. `inputs` are ``input_ids`` (batch, tokens) and ``attention_mask``
    (batch, tokens), or (batch, 1, tokens, tokens) with ``position_ids`` (batch, tokens).
    The output has only ``last_hidden_state``, (batch, tokens, hidden).
    """
    read = DynamicCache()  # without the config: layers with a sliding window would drop what rows need
    ids, mask = inputs["input_ids"], inputs["attention_mask"]
    name = cache_name(encoder)
    begun = encoder(input_ids=ids[:1, :prefix], use_cache=True, **{name: read}).last_hidden_state
    own = {"input_ids": ids[:, prefix:], "attention_mask": mask if mask.dim() == 2 else mask[:, :, prefix:]}
    if "position_ids" in inputs:
        own["position_ids"] = inputs["position_ids"][:, prefix:]
    cache = Cache(layers=[_Prefix(layer) for layer in read.layers])
    states = encoder(**own, use_cache=True, **{name: cache}).last_hidden_state
    return BaseModelOutput(last_hidden_state=torch.cat([begun.expand(len(ids), -1, -1), states], dim=1))
