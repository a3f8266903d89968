"""Whether everything that a model computes from gates has a derivative."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from headspec.errors import EncoderError


class Paths(TorchFunctionMode):
    """Follows what is computed without a derivative, although it depends on something that has one.

    Functions for quantised weights, for example, return numbers without one: a gate's derivative is then
    only that of the paths around them. What has a derivative and depends on such numbers is followed, too.

    Parameters
    ----------
    model : its modules are named in errors
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        #: where a tensor's derivative is lost, and whether the tensor has one by other paths
        self.lost: Any = WeakTensorKeyDictionary()
        self.stopping = False

    @contextmanager
    def stops(self) -> Iterator[None]:
        """Take derivatives that are stopped in this block, as in a loss, for meant."""
        self.stopping = True
        try:
            yield
        finally:
            self.stopping = False

    def require(self, losses: torch.Tensor) -> None:
        """Raise EncoderError if losses depend on something that lacks a derivative, or have none."""
        where = self._where(losses)
        if where is None and losses.requires_grad:
            return
        reason = f"nothing has one through {where}" if where else "it depends on no head"
        raise EncoderError(
            f"the loss has no derivative by all heads: {reason}; expected a model in floating point"
        )

    def __torch_function__(
        self, func: Callable, types: Any, args: tuple = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        given = [value for value in tree_leaves((args, kwargs)) if _is_number(value)]
        before = next(filter(None, map(self._where, given)), None)
        live = any(value.requires_grad for value in given)
        output = func(*args, **kwargs)
        if before is None and not live:
            return output
        # x[...] = y returns nothing
        for value in filter(_is_number, tree_leaves(args[0] if output is None and args else output)):
            if before is not None:
                self.lost[value] = before, value.requires_grad
            elif _lacks_formula(value):
                self.lost[value] = self._place(func), True
            elif not (value.requires_grad or self.stopping) and _depends(func, args, kwargs, value):
                self.lost[value] = self._place(func), False
        return output

    def _where(self, value: torch.Tensor) -> str | None:
        where, had = self.lost.get(value, (None, False))
        return where if had or not value.requires_grad else None  # of a function with an own derivative

    def _place(self, func: Callable) -> str:
        name = getattr(func, "__name__", str(func))
        frame: FrameType | None = sys._getframe()
        while frame := frame and frame.f_back:
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module) and module in self.names:
                return f"{name} in '{self.names[module]}' ({type(module).__name__})"
        return name


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _lacks_formula(value: torch.Tensor) -> bool:
    """Return whether a custom function made a tensor, whose derivative is None, with a warning of torch."""
    return value.grad_fn is not None and value.grad_fn.name().endswith("WarnNotImplemented")


def _depends(func: Callable, args: tuple, kwargs: dict[str, Any], output: torch.Tensor) -> bool:
    """Return whether a function's output depends on the values of its arguments, not only on their shapes."""
    if any(value is output for value in tree_leaves((args, kwargs))):
        return True

    def others(value: Any) -> Any:
        return value.detach() + 1 if _is_number(value) and value.requires_grad else value

    with torch.no_grad():
        again, once_more = (func(*tree_map(f, args), **tree_map(f, kwargs)) for f in (others, lambda x: x))
    found = [next(filter(_is_number, tree_leaves(each)), output) for each in (again, once_more)]
    return torch.equal(found[1], output) and not torch.equal(found[0], output)
