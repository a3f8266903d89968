"""Forward passes without one head that, if possible, resume at its layer from an earlier pass."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.placement import device_of
from headspec.models.attention.projections import is_packed
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel

    from headspec.models.multitask import MultiTask

Run = Callable[[], torch.Tensor]
Result = TypeVar("Result")
#: modules and their outputs
Finished = list[tuple[nn.Module, Any]]


def ablating(model: MultiTask, task: str) -> Resuming | Replacing:
    """Return passes of a model on examples of a task in which one head can be replaced."""
    if model.encoder.config.is_encoder_decoder or model.classifier(task).reads_again:
        return Replacing(model.gates)
    return Resuming(model.encoder, model.gates)


class Replacing:
    """Full passes, for models that a `run` calls several times.

    `contexts`, row: (batch, tokens, heads, size), are from the first call in the last `record`.
    """

    def __init__(self, gates: HeadGates) -> None:
        self.gates = gates
        self.contexts: dict[int, torch.Tensor] = {}

    def __enter__(self) -> Replacing:
        return self

    def __exit__(self, *error: object) -> None:
        self.contexts = {}

    def record(self, run: Callable[[], Result]) -> Result:
        """Return the result of `run`, and keep its context vectors."""
        with self.gates.recorded() as contexts:
            result = run()
        first = device_of(self.gates.model)  # layers may be on several devices
        self.contexts = {row: context.to(first) for row, context in sorted(contexts.items())}
        return result

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """Do the same as `Resuming.without`; `instead` has its shape."""

        def edit(row: int, context: torch.Tensor) -> torch.Tensor:
            if row != layer:
                return context
            if instead is None:
                return _replaced(context, head, None)
            beams = len(context) // len(instead)  # the beams of a text are adjacent
            return _replaced(context, head, instead.repeat_interleave(beams, 0))

        with self.gates.edited(edit):
            return run()


class Resuming:
    """Passes of an unmodified encoder that recompute only what follows a change of one head.

    `record` runs the encoder and keeps, for every call of attention, its context vectors (`contexts`, row:
    (batch, tokens, heads, size)) and the outputs of modules that finished before it. `without` runs the
    encoder again on the same batch: these modules return their earlier outputs, that attention returns its
    context vectors without one head, and all others compute. Modules are identified by the order of calls,
    whatever layers are called or share. Over all heads of a deep encoder this saves half of the operations.

    The context manager replaces `forward` of the encoder's modules, and checks on a small batch that leaving
    out a head equals closing its gate. There are no gradients and no dropout. Raises ModelError if the check
    fails, or if the encoder does not repeat its calls or changes states that modules have returned.

    Parameters
    ----------
    checked : run for the check; by default on a batch of two texts, one of them padded
    """

    def __init__(self, encoder: PreTrainedModel, gates: HeadGates, checked: Run | None = None) -> None:
        self.encoder, self.gates, self.checked = encoder, gates, checked or self._texts
        # row: its context vectors, and the calls that finished before it, inside calls still open
        self._points: dict[int, tuple[torch.Tensor, Finished]] = {}
        self._open: list[Finished] | None = None  # finished calls in each open one
        self._expected: deque[tuple[nn.Module, Any]] = deque()

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
        self._points = {}
        for module, forward in self._replaced.items():
            del module.forward
            if forward is not None:
                module.forward = forward

    def _replacing(self, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def replacement(*args: Any, **kwargs: Any) -> Any:
            if self._open is not None:
                self._open.append([])
                output = forward(*args, **kwargs)
                self._open.pop()
                self._open[-1].append((module, output))
                return output
            if self._expected and self._expected[0][0] is module:
                return self._expected.popleft()[1]
            return forward(*args, **kwargs)

        return replacement

    def _note(self, layer: int, context: torch.Tensor) -> torch.Tensor:
        assert self._open is not None
        self._points[layer] = context, [call for calls in self._open for call in calls]
        return context

    @property
    def contexts(self) -> dict[int, torch.Tensor]:
        """Context vectors of the last `record`, row: (batch, tokens, heads, size)."""
        first = device_of(self.encoder)  # layers may be on several devices
        return {layer: context.to(first) for layer, (context, _) in self._points.items()}

    def record(self, run: Callable[[], Result]) -> Result:
        """Return the result of `run`, which calls the encoder once, and keep its states."""
        self._points, self._open = {}, [[]]
        try:
            with self.gates.edited(self._note):
                return run()
        finally:
            self._open = None

    def without(self, layer: int, head: int, run: Run, instead: torch.Tensor | None = None) -> torch.Tensor:
        """Return the result of `run`, the same as in `record`, without a head.

        Vectors `instead`, (batch, tokens or 1, size), replace the head's context vectors.
        """
        context, finished = self._points[layer]
        self._expected = deque(finished)
        try:
            with self.gates.resumed(layer, _replaced(context, head, instead)):
                result = run()
            if self._expected:
                raise self._refusal(f"it does not repeat its calls up to layer {layer}")
            return result
        finally:
            self._expected = deque()

    def _refusal(self, reason: str) -> ModelError:
        model_type = self.encoder.config.model_type
        return ModelError(f"passes of this {model_type} cannot start at a layer: {reason}")

    def _texts(self) -> torch.Tensor:
        """Return the states of the tokens, (tokens, hidden), of two texts, one of them padded."""
        device = device_of(self.encoder)
        ids = torch.arange(16, device=device).view(2, 8) % self.encoder.config.vocab_size
        attended = torch.ones_like(ids)
        attended[1, 5:] = 0
        states: torch.Tensor = self.encoder(input_ids=ids, attention_mask=attended).last_hidden_state
        return states[attended.bool()]

    @torch.no_grad()
    def _check(self) -> None:
        device, run = device_of(self.encoder), self.checked
        self.record(run)
        coarse = self.encoder.dtype == torch.bfloat16 or any(map(is_packed, self.encoder.modules()))
        within = 0.05 if coarse else 1e-4
        for layer in self._points:
            head = layer % self.gates.site(layer).heads
            resumed = self.without(layer, head, run)
            self.gates.values = torch.ones(self.gates.layers, self.gates.heads, device=device)
            self.gates.values[layer, head] = 0
            closed = run()
            self.gates.values = None
            if not torch.allclose(resumed, closed, rtol=within, atol=within * float(closed.abs().max())):
                raise self._refusal(f"without head {head} of layer {layer} it differs from closing its gate")


def _replaced(context: torch.Tensor, head: int, instead: torch.Tensor | None) -> torch.Tensor:
    """Return context vectors (batch, tokens, heads, size) with a head's replaced by zeros or `instead`."""
    changed = context.clone()
    changed[..., head, :] = 0 if instead is None else instead.to(context)
    return changed
