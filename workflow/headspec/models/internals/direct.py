"""What single heads of a decoder add to its last states, and the logits of that alone."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.gates import HeadGates
from headspec.models.language import near

#: the list of layers, in the name of a module inside one of them
LAYERS = re.compile(r"(.+?)\.\d+\.")


class Direct:
    """Outputs of heads that read nothing but one token after the first layer, and their logits.

    States after the first layer, whose heads are closed, are given to every later layer: they are those of
    MLP_0(W_E) and W_E in Gould et al. (2023). Heads of the first layer read the embedding. A head's
    output is what W_O, and the norm after it if there is one, make of its context vector. Its logits are
    those of the last norm and the unembedding, without their biases.

    Raises ModelError if the model has no list of layers that pass on one tensor, its heads are not followed
    by a W_O, or its last states do not determine its logits.
    """

    def __init__(self, gates: HeadGates, ids: torch.Tensor) -> None:
        """Take the tokens (n,), each of which is a text of its own."""
        ones = torch.ones_like(ids[:, None])
        self.gates, self.layers = gates, _layers(gates)
        self.inputs = {"input_ids": ids[:, None], "attention_mask": ones}
        if "position_ids" in inspect.signature(gates.model.forward).parameters:
            self.inputs["position_ids"] = ones  # the vector of the first place is often large
        self.first: Any = None
        self._check()
        self._closed = self._outputs(None)
        self._zero = self.logits(torch.zeros_like(self._states(self.first)))

    def of_head(self, head: int) -> dict[int, torch.Tensor]:
        """Return what head number `head` of each row writes, row: (n, 1, hidden)."""
        found = self._outputs(head)
        return {
            row: output - self._closed[row]
            for row, output in found.items()
            if head < self.gates.site(row).heads
        }

    def logits(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of last states (n, 1, hidden), (n, tokens), float32."""

        def replaced(*_: Any, **__: Any) -> Any:
            return self._like(self.first, states)

        with ExitStack() as stack:
            for layer in self.layers:
                stack.enter_context(_forward(layer, replaced))
            logits: torch.Tensor = self._run().logits[:, -1].float()
        return logits

    def written(self, states: torch.Tensor) -> torch.Tensor:
        """Return the logits of outputs of heads (n, 1, hidden), without biases, (n, tokens)."""
        return self.logits(states) - self._zero

    def _run(self) -> Any:
        return self.gates.model(**self.inputs)

    def _outputs(self, only: int | None) -> dict[int, torch.Tensor]:
        """Return what W_O, and a norm after it, make of a single head in each row; of none without `only`."""
        found: dict[int, torch.Tensor] = {}

        def edit(_: int, context: torch.Tensor) -> torch.Tensor:
            alone = torch.zeros_like(context)
            if only is not None and only < context.shape[2]:
                alone[:, :, only] = context[:, :, only]
            return alone

        def pass_on(_: nn.Module, __: Any, output: Any) -> Any:
            if self.first is None:
                self.first = output
            return self._like(output, self._states(self.first))

        with ExitStack() as stack:
            if only is None:
                self.first = None
            for site in self.gates.sites:
                stack.enter_context(_followed(self._layer(site.name), site.output, found, site.rows[0]))
            for layer in self.layers:
                stack.callback(layer.register_forward_hook(pass_on).remove)
            stack.enter_context(self.gates.edited(edit))
            self._run()
        return found

    def _layer(self, name: str) -> nn.Module:
        """Return the layer that a module is in."""
        return next(layer for layer in self.layers if self.gates.model.get_submodule(name) in layer.modules())

    def _states(self, output: Any) -> torch.Tensor:
        states: torch.Tensor = output[0] if isinstance(output, (tuple, list)) else output
        return states

    def _like(self, output: Any, states: torch.Tensor) -> Any:
        """Return an output of a layer with other states."""
        return type(output)([states, *output[1:]]) if isinstance(output, (tuple, list)) else states

    def _check(self) -> None:
        """Raise ModelError unless the states of the last layer determine the logits."""
        model, outputs = self.gates.model, []
        with ExitStack() as stack:
            for layer in self.layers:
                stack.callback(layer.register_forward_hook(lambda *given: outputs.append(given[2])).remove)
            expected = self._run().logits[:, -1].float()
        refused = f"the layers of this {model.config.model_type} do not pass on"
        if len(outputs) != len(self.layers) or not all(_is_states(self._states(each)) for each in outputs):
            raise ModelError(f"{refused} one tensor each")
        self.first = outputs[0]
        if not near(self.logits(self._states(outputs[-1])), expected, model):
            raise ModelError(f"{refused} all that its logits depend on")


def _is_states(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.dim() == 3


def _layers(gates: HeadGates) -> list[nn.Module]:
    """Return the list of layers that has all sites of a decoder; ModelError without one, or without a W_O."""
    model = gates.model
    stems = {match[1] if (match := LAYERS.match(site.name)) else "" for site in gates.sites}
    found = model.get_submodule(*stems) if len(stems) == 1 else None
    if not isinstance(found, nn.ModuleList) or any(len(site.rows) > 1 for site in gates.sites):
        raise ModelError(f"the heads of this {model.config.model_type} are in no single list of layers")
    if any(site.output is None for site in gates.sites):
        raise ModelError(f"the heads of this {model.config.model_type} are not followed by a W_O")
    return [*found]


@contextmanager
def _followed(
    layer: nn.Module, output: nn.Module | None, into: dict[int, torch.Tensor], row: int
) -> Iterator[None]:
    """Keep what W_O returns in a pass, and what modules that take this alone, such as norms, make of it."""

    def note(module: nn.Module, args: tuple[Any, ...], result: Any) -> None:
        taken = bool(args) and row in into and args[0] is into[row]
        if isinstance(result, torch.Tensor) and (module is output or taken):
            into[row] = result

    with ExitStack() as stack:
        for module in layer.modules():
            stack.callback(module.register_forward_hook(note).remove)
        yield


@contextmanager
def _forward(module: nn.Module, forward: Callable[..., Any]) -> Iterator[None]:
    """Replace the `forward` of a module."""
    own = vars(module).get("forward")
    vars(module)["forward"] = forward
    try:
        yield
    finally:
        del vars(module)["forward"]
        if own is not None:
            vars(module)["forward"] = own
