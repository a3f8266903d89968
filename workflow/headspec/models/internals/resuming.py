"""Forward passes that start at an attention output projection, from the states of an earlier pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from headspec.errors import EncoderError
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel

Run = Callable[[], torch.Tensor]
Result = TypeVar("Result")


@dataclass
class Point:
    """A call of an attention output projection W_O, and what is known before it.

    Attributes
    ----------
    finished : modules and their outputs
        The calls that have ended while the call that contains them has not, in order: earlier layers as
        a whole, and parts of this layer.
    owner : index of the projection in `HeadGates.projections`
    context : (batch, tokens, heads * size), input of W_O
    projected : (batch, tokens, hidden), output of W_O
    """

    finished: list[tuple[nn.Module, Any]]
    owner: int
    context: torch.Tensor
    projected: torch.Tensor


class Resuming:
    """Passes of an unmodified encoder that repeat only what follows a change of one head.

    `record` runs the encoder and keeps, for every call of W_O, the outputs of the modules that have
    finished before it. `without` runs the encoder's code again on the same batch: these modules return
    what they returned, that W_O returns its output without the contribution of one head, and all others
    compute. Which modules these are follows from the order of calls, so that neither layers nor their
    arguments have to be known, and a module shared by several layers (ALBERT) is no special case. Over all
    heads of a deep encoder this saves half of the operations: layers above a head have to be computed.

    The context manager replaces `forward` of the encoder's modules, and checks on a small batch that a
    head left out is a closed gate; no gradients, no dropout.

    Raises
    ------
    EncoderError
        The encoder does not repeat its calls, changes states that modules have returned, or differs
        from the encoder with a closed gate.
    """

    def __init__(self, encoder: PreTrainedModel, gates: HeadGates) -> None:
        self.encoder, self.gates = encoder, gates
        self.points: list[Point] = []
        self._open: list[list[tuple[nn.Module, Any]]] | None = None  # finished calls in each open one
        self._expected: deque[tuple[nn.Module, Any]] = deque()
        self._projected: torch.Tensor | None = None

    def __enter__(self) -> Resuming:
        self._replaced = {}
        for module in self.encoder.modules():
            if module is not self.encoder:
                self._replaced[module] = module.__dict__.get("forward")
                module.forward = self._replacing(module, module.forward)
        try:
            self._check()
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *error: object) -> None:
        self.points = []
        for module, forward in self._replaced.items():
            del module.forward
            if forward is not None:
                module.forward = forward

    def _replacing(self, module: nn.Module, forward: Callable) -> Callable:
        is_projection = any(module is projection for projection in self.gates.projections)

        def replacement(*args: Any, **kwargs: Any) -> Any:
            if self._open is not None:
                return self._recorded(module, is_projection, lambda: forward(*args, **kwargs), args)
            if self._expected and self._expected[0][0] is module:
                return self._expected.popleft()[1]
            if is_projection and self._projected is not None:
                projected, self._projected = self._projected, None
                return projected
            return forward(*args, **kwargs)

        return replacement

    def _recorded(self, module: nn.Module, is_projection: bool, run: Callable[[], Any], args: tuple) -> Any:
        assert self._open is not None
        finished = [call for calls in self._open for call in calls] if is_projection else []
        self._open.append([])
        output = run()
        self._open.pop()
        self._open[-1].append((module, output))
        if is_projection:
            self.points.append(Point(finished, self.gates.projections.index(module), args[0], output))
        return output

    @property
    def contexts(self) -> list[torch.Tensor]:
        """For each layer, the input of its W_O (batch, tokens, heads * size) in the last `record`."""
        first = next(self.encoder.parameters()).device  # of several, as in `models.language.spread`
        return [point.context.to(first) for point in self.points]

    def record(self, run: Callable[[], Result]) -> Result:
        """The result of `run`, which calls the encoder once; later passes start from its states."""
        self.points, self._open = [], [[]]
        try:
            return run()
        finally:
            self._open = None

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """The result of `run`, the same as in `record`, without a head's contribution to its layer.

        Parameters
        ----------
        instead : (batch, tokens or 1, size), optional
            Context vectors of the tokens, or one for all tokens of a text, in place of the head's own.
        """
        point, called = self.points[layer], {kind: list(of) for kind, of in self.gates.called.items()}
        removed = point.context.unflatten(-1, (self.gates.heads, -1))[..., head, :]  # (batch, tokens, size)
        if instead is not None:
            removed = removed - instead.to(removed)
        weight = self.gates.weights(point.owner)[head]
        self._projected = point.projected - removed.to(weight.dtype) @ weight
        self._expected = deque(point.finished)
        try:
            result = run()
            if self._expected or self._projected is not None:
                raise self._refusal(f"it does not repeat its calls up to layer {layer}")
            return result
        finally:
            self._expected, self._projected = deque(), None
            self.gates.called |= called  # a count of all layers again

    def _refusal(self, reason: str) -> EncoderError:
        kind = self.encoder.config.model_type
        return EncoderError(f"passes of this {kind} cannot start at a layer: {reason}")

    @torch.no_grad()
    def _check(self) -> None:
        device = next(self.encoder.parameters()).device
        ids = torch.arange(16, device=device).view(2, 8) % self.encoder.config.vocab_size
        attended = torch.ones_like(ids)
        attended[1, 5:] = 0

        def run() -> torch.Tensor:
            return self.encoder(input_ids=ids, attention_mask=attended).last_hidden_state[attended.bool()]

        self.record(run)
        for layer in range(self.gates.layers):
            head = layer % self.gates.heads
            resumed = self.without(layer, head, run)
            values = torch.ones(self.gates.layers, self.gates.heads, device=device)
            values[layer, head] = 0
            self.gates.values = values
            closed = run()
            self.gates.values = None
            half = self.gates.weights(0).dtype == torch.bfloat16
            within = 0.05 if half else 1e-4
            if not torch.allclose(resumed, closed, rtol=within, atol=within * float(closed.abs().max())):
                raise self._refusal(f"without head {head} of layer {layer} it differs from closing its gate")
