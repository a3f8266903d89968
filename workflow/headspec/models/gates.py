"""Head gates: xi_h in `head_h(x) -> xi_h * head_h(x)` (Michel et al. 2019; Li et al. 2023).

A gate multiplies the head's context vector, which is a slice of the *input* of the attention output
projection W_O. The output of W_O mixes heads, so that they can no longer be gated.
"""

from __future__ import annotations

import fnmatch
import functools
import itertools
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.attention import CROSS, DECODER, ENCODER, SELF
from headspec.errors import EncoderError
from headspec.models.architectures import attentions

if TYPE_CHECKING:
    from transformers import PreTrainedModel


def stacks(encoder: PreTrainedModel) -> dict[nn.Module, list[str]]:
    """The modules that call all layers once, and the kinds of their attention."""
    if not encoder.config.is_encoder_decoder:
        return {encoder: [SELF]}
    return {encoder.get_encoder(): [ENCODER], encoder.get_decoder(): [DECODER, CROSS]}


class HeadGates:
    """Gates on every attention head of an unmodified encoder.

    Weights and code of the encoder stay the same; each W_O gets a forward pre-hook. Layers are counted
    by calls, so that a module shared by several layers (ALBERT) has gates for each layer. Those of an
    encoder-decoder are the layers of its kinds of attention, one kind after the other
    (`headspec.attention`), and its decoder may be called many times after the encoder.

    Attributes
    ----------
    values : None, or tensor of shape ([batch, [tokens,]] layers, heads)
        The gates, 1 is open and 0 closed; with None, the encoder runs without gates. Of more tokens than
        a layer has, it takes the first.
    layers, heads : int
        Numbers of layers (calls of W_O) and of heads per layer.
    kinds : for each projection, the kind of its attention
    called : kind of attention: for each of its layers called so far, the index of its projection
    """

    def __init__(self, encoder: PreTrainedModel) -> None:
        config = encoder.config
        modules = dict(encoder.named_modules())
        patterns = {kind: entry.projection for kind, entry in attentions(config.model_type).items()}
        found = [
            (kind, name)
            for kind, pattern in patterns.items()
            for name in modules
            if fnmatch.fnmatchcase(name, pattern)
        ]
        self.kinds, self.names = [kind for kind, _ in found], [name for _, name in found]
        self.projections: list[Any] = [modules[name] for name in self.names]
        self.heads: int = config.num_attention_heads
        self.values: torch.Tensor | None = None
        self.layers = 0
        self.called: dict[str, list[int]] = {kind: [] for kind in patterns}
        self.before: dict[str, int] = {}  # number of layers of other kinds before those of a kind
        for stack, kinds in stacks(encoder).items():
            stack.register_forward_pre_hook(functools.partial(self._begin, kinds))
        for index, projection in enumerate(self.projections):
            projection.register_forward_pre_hook(functools.partial(self._gate, index))
        self._check(encoder)

    @property
    def owners(self) -> list[int]:
        """For each layer, the index of its projection."""
        return list(itertools.chain.from_iterable(self.called.values()))

    def kind(self, layer: int) -> str:
        """The kind of attention of a layer."""
        return [kind for kind, before in self.before.items() if before <= layer][-1]

    def _begin(self, kinds: list[str], stack: nn.Module, args: tuple) -> None:
        for kind in kinds:
            self.called[kind].clear()

    def _gate(self, index: int, projection: nn.Module, args: tuple) -> tuple | None:
        called = self.called[self.kinds[index]]
        called.append(index)
        if self.values is None:
            return None
        layer = self.before[self.kinds[index]] + len(called) - 1
        context = args[0]  # (batch, tokens, heads * size)
        gate = self.values[..., layer, :, None]  # (heads, 1), (batch, heads, 1), (batch, tokens, heads, 1)
        if gate.dim() == 3:
            gate = gate[:, None]  # (batch, 1, heads, 1)
        elif gate.dim() == 4:
            gate = gate[:, : context.shape[1]]
        if not gate.requires_grad:
            gate = gate.to(context.dtype)  # else the product would take the precision of the gate
        gate = gate.to(context.device)  # of the layers of one model, there may be several
        by_head = context.unflatten(-1, (self.heads, -1))  # (batch, tokens, heads, size)
        return (by_head * gate).flatten(-2), *args[1:]

    def weights(self, index: int) -> torch.Tensor:
        """The rows of projection `index` that each head's context meets, a view (heads, size, hidden)."""
        projection = self.projections[index]
        # inputs are columns of a Linear (out, in), but rows of GPT's Conv1D (in, out)
        by_input = projection.weight.T if isinstance(projection, nn.Linear) else projection.weight
        return by_input.unflatten(0, (self.heads, -1))

    @staticmethod
    def _calls(
        encoder: PreTrainedModel, states: Callable[[], torch.Tensor]
    ) -> tuple[torch.Tensor, list[str]]:
        """The result of `states`, and the names of the linear layers that it called, in order."""
        called: list[str] = []
        hooks = [
            module.register_forward_hook(lambda *_, name=name: called.append(name))
            for name, module in encoder.named_modules()
            if getattr(module, "weight", None) is not None and module.weight.dim() == 2
        ]
        result = states()
        for hook in hooks:
            hook.remove()
        return result, called

    @torch.no_grad()
    def _check(self, encoder: PreTrainedModel) -> None:
        """EncoderError if gates on this encoder do not act on its heads.

        Each projection must be the last linear layer of its attention, open gates must change nothing,
        and closing a head must equal setting its input weights in W_O to zero.
        """
        device = next(encoder.parameters()).device
        ids = torch.arange(16, device=device).view(2, 8) % encoder.config.vocab_size
        training = encoder.training
        encoder.eval()

        inputs = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if encoder.config.is_encoder_decoder:
            inputs["decoder_input_ids"] = ids

        def states(gates: torch.Tensor | None = None) -> torch.Tensor:
            self.values = gates
            output = encoder(**inputs)
            self.values = None
            return output.logits if encoder.config.is_encoder_decoder else output.last_hidden_state

        def refuse(reason: str) -> EncoderError:
            return EncoderError(f"the heads of this {encoder.config.model_type} cannot be gated: {reason}")

        plain, called = self._calls(encoder, states)
        numbers = [len(called) for called in self.called.values()]
        self.layers = sum(numbers)  # not counted later: memory may run out between two layers
        self.before = dict(zip(self.called, itertools.accumulate(numbers, initial=0), strict=False))
        if not all(numbers):
            raise refuse("it has no attention output projection of the name in the architecture table")
        if getattr(encoder.config, "decoder_attention_heads", self.heads) != self.heads:
            raise refuse(
                f"its encoder has {self.heads} heads in a layer, its decoder "
                f"{encoder.config.decoder_attention_heads}; expected equal numbers"
            )
        for name in self.names:
            attention = re.match(
                r"(.*?\.)?[^.]*att[^.]*\.", name, re.IGNORECASE
            )  # the innermost module with att in its name
            inside = [layer for layer in called if attention and layer.startswith(attention[0])]
            if not inside or inside[-1] != name:
                raise refuse(f"'{name}' is not the last linear layer of an attention")
        ones = torch.ones(self.layers, self.heads, device=device)
        if not torch.equal(states(ones), plain):
            raise refuse("gates of one change its output")
        head = self.heads - 1
        owners = self.owners
        ends = {self.kinds.index(kind) for kind in self.called}
        for index in sorted({*ends, *(end - 1 for end in ends if end), len(self.projections) - 1}):
            gates = ones.clone()
            gates[[owner == index for owner in owners], head] = 0
            head_weight = self.weights(index)[head]
            original = head_weight.clone()
            closed = states(gates)
            head_weight.zero_()
            zeroed = states()
            head_weight.copy_(original)
            if torch.equal(closed, plain) or not torch.allclose(closed, zeroed, rtol=1e-4, atol=1e-5):
                raise refuse(f"closing head {head} of projection {index} differs from zeroing its weights")
        encoder.train(training)
