"""Derivatives that are lost inside a model, such as in quantised layers, and where."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType
from typing import Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.weak import WeakTensorKeyDictionary

from headspec.errors import ModelError


class Paths(TorchFunctionMode):
    """Track tensors that lost their derivative although they depend on tensors that have one.

    Kernels for quantised weights, for example, return tensors without one, and activations may be rounded to
    integers: a gate's derivative then covers only the paths around them. Everything computed from such
    tensors is tracked, too.

    Parameters
    ----------
    model : errors name its modules
    """

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.names = {module: name for name, module in model.named_modules()}
        #: where a tensor's derivative is lost, and whether the tensor has one by other paths
        self.lost: Any = WeakTensorKeyDictionary()
        self.stopping = False

    @contextmanager
    def stops(self) -> Iterator[None]:
        """Treat derivatives that stop in this block, such as in a loss, as intended."""
        self.stopping = True
        try:
            yield
        finally:
            self.stopping = False

    def require(self, losses: torch.Tensor) -> None:
        """Raise ModelError if losses (batch,) have no derivative, or depend on tensors that lost theirs."""
        where = self._where(losses)
        if where is None and losses.requires_grad:
            return
        reason = f"nothing has one through {where}" if where else "it depends on no head"
        raise ModelError(
            f"the loss has no derivative by all heads: {reason}; expected a model in floating point"
        )

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        given = [value for value in tree_leaves((args, kwargs)) if isinstance(value, torch.Tensor)]
        before = next(filter(None, map(self._where, given)), None)
        followed = [value for value in given if value.requires_grad or self._where(value)]
        output = func(*args, **kwargs)
        if not followed:
            return output
        # x[...] = y returns nothing
        for value in filter(_is_tensor, tree_leaves(args[0] if output is None and args else output)):
            if not (_is_number(value) or _is_rounded(value, followed)):
                continue
            if before is not None:
                self.lost[value] = before, value.requires_grad
            elif _lacks_formula(value):
                self.lost[value] = self._place(func), True
            elif not (value.requires_grad or self.stopping) and _depends(func, args, kwargs, value):
                self.lost[value] = self._place(func), False
        return output

    def _where(self, value: torch.Tensor) -> str | None:
        where, had = self.lost.get(value, (None, False))
        return where if had or not value.requires_grad else None  # a custom function restored it

    def _place(self, func: Callable[..., Any]) -> str:
        name = getattr(func, "__name__", str(func))
        frame: FrameType | None = sys._getframe()
        while frame := frame and frame.f_back:
            module = frame.f_locals.get("self")
            if isinstance(module, nn.Module) and module in self.names:
                return f"{name} in '{self.names[module]}' ({type(module).__name__})"
        return name


def _is_tensor(value: Any) -> bool:
    return isinstance(value, torch.Tensor)


def _is_number(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_quantized)


def _is_rounded(value: torch.Tensor, given: Sequence[torch.Tensor]) -> bool:
    """Return whether a result of the `given` tensors holds rounded values rather than indices."""
    if value.dtype == torch.bool or value.is_complex():
        return False
    # argmax, topk and sort return indices as int64
    return value.dtype != torch.int64 or any(
        not source.is_floating_point()
        or (source.shape == value.shape and bool(((value - source.detach()).abs() <= 1).all()))
        for source in given
    )


def _lacks_formula(value: torch.Tensor) -> bool:
    """Return whether a tensor is from a custom operator without a derivative, of which torch only warns."""
    return value.grad_fn is not None and value.grad_fn.name().endswith("WarnNotImplemented")


def _depends(
    func: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], output: torch.Tensor
) -> bool:
    """Return whether a function's output depends on the values of its arguments, not only on their shapes."""
    if any(value is output for value in tree_leaves((args, kwargs))):
        return True

    def others(value: Any) -> Any:
        return value.detach() + 1 if _is_number(value) and value.requires_grad else value

    with torch.no_grad():
        again, once_more = (func(*tree_map(f, args), **tree_map(f, kwargs)) for f in (others, lambda x: x))

    def same(value: Any) -> bool:
        return _is_tensor(value) and value.dtype == output.dtype and value.shape == output.shape

    outputs = [next(filter(same, tree_leaves(each)), output) for each in (again, once_more)]
    return torch.equal(outputs[1], output) and not torch.equal(outputs[0], output)
