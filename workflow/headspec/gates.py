"""Head gates: xi_h in `head_h(x) -> xi_h * head_h(x)` (Michel et al. 2019; Li et al. 2023).

A gate multiplies the head's context vector, that is a slice of the *input* of the attention
output projection W_O. After W_O the heads are mixed and cannot be gated any more.
"""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel

from headspec.architectures import ARCHITECTURES
from headspec.errors import EncoderError


class HeadGates:
    """Gates on every attention head of an unmodified encoder.

    The encoder keeps its weights and code: each W_O gets a forward pre-hook. Layers are counted
    as they are called, so a module that serves several layers (ALBERT) has gates for each.

    Attributes
    ----------
    values : None, or tensor of shape (layers, heads) or (batch, layers, heads)
        The gates, 1 open and 0 closed; None leaves the encoder alone.
    layers, heads : int
        Size of the grid of heads; `layers` counts calls of W_O, not modules.
    """

    def __init__(self, encoder: PreTrainedModel) -> None:
        config = encoder.config
        pattern = ARCHITECTURES[config.model_type].projection
        modules = dict(encoder.named_modules())
        self.names = [name for name in modules if fnmatch.fnmatchcase(name, pattern)]
        self.projections: list[Any] = [modules[name] for name in self.names]
        self.heads: int = config.num_attention_heads
        self.values: torch.Tensor | None = None
        self.owners: list[int] = []  # layer: index of the projection that serves it
        encoder.register_forward_pre_hook(lambda module, args: self.owners.clear())
        for index, projection in enumerate(self.projections):
            projection.register_forward_pre_hook(lambda module, args, index=index: self._gate(index, args))
        self._check(encoder)

    def _gate(self, index: int, args: tuple) -> tuple | None:
        layer = len(self.owners)
        self.owners.append(index)
        if self.values is None:
            return None
        context = args[0]  # (batch, tokens, heads * size)
        gate = self.values[..., layer, :, None]  # (heads, 1) or (batch, heads, 1)
        if gate.dim() == 3:
            gate = gate[:, None]  # (batch, 1, heads, 1)
        if not gate.requires_grad:
            gate = gate.to(context.dtype)  # else the product stays in the gate's precision
        apart = context.unflatten(-1, (self.heads, -1))  # (batch, tokens, heads, size)
        return (apart * gate).flatten(-2), *args[1:]

    @property
    def layers(self) -> int:
        return len(self.owners)

    @staticmethod
    def _calls(
        encoder: PreTrainedModel, states: Callable[[], torch.Tensor]
    ) -> tuple[torch.Tensor, list[str]]:
        """What `states` gives, and the names of the linear layers that it called, in order."""
        called: list[str] = []
        hooks = [
            module.register_forward_hook(lambda *_, name=name: called.append(name))
            for name, module in encoder.named_modules()
            if getattr(module, "weight", None) is not None and module.weight.dim() == 2
        ]
        found = states()
        for hook in hooks:
            hook.remove()
        return found, called

    @torch.no_grad()
    def _check(self, encoder: PreTrainedModel) -> None:
        """Refuse an encoder whose gates would not mean what they say.

        Each projection must be the last layer of its attention, gates of one must change nothing,
        and closing a head must equal zeroing the weights with which W_O reads it.
        """
        device = next(encoder.parameters()).device
        ids = torch.arange(16, device=device).view(2, 8) % encoder.config.vocab_size
        training = encoder.training
        encoder.eval()

        def states(gates: torch.Tensor | None = None) -> torch.Tensor:
            self.values = gates
            found = encoder(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state
            self.values = None
            return found

        def refuse(reason: str) -> EncoderError:
            return EncoderError(f"the heads of this {encoder.config.model_type} cannot be gated: {reason}")

        plain, called = self._calls(encoder, states)
        if not self.owners:
            raise refuse("it has no attention output projection where the architecture table says")
        for name in self.names:
            attention = re.match(r"(.*?\.)?[^.]*att[^.]*\.", name)  # up to the module that is named so
            inside = [own for own in called if attention and own.startswith(attention[0])]
            if not inside or inside[-1] != name:
                raise refuse(f"'{name}' is not the last linear layer of an attention")
        ones = torch.ones(self.layers, self.heads, device=device)
        if not torch.equal(states(ones), plain):
            raise refuse("gates of one change its output")
        head = self.heads - 1
        for index in {0, len(self.projections) - 1}:
            gates = ones.clone()
            gates[[owner == index for owner in self.owners], head] = 0
            weight = self.projections[index].weight
            # the weights' input side: columns of a Linear (out, in), rows of GPT's Conv1D (in, out)
            read = weight.T if isinstance(self.projections[index], nn.Linear) else weight
            part = read.unflatten(0, (self.heads, -1))[head]
            kept = part.clone()
            closed = states(gates)
            part.zero_()
            zeroed = states()
            part.copy_(kept)
            if torch.equal(closed, plain) or not torch.allclose(closed, zeroed, rtol=1e-4, atol=1e-5):
                raise refuse(f"closing head {head} of projection {index} is not zeroing its weights")
        encoder.train(training)
