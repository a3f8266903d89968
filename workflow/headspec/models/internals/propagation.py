"""Layer-wise relevance propagation as a modified backward pass of the unmodified model.

Relevance is gradient x input of a network made locally linear, with the same output but other gradients.
A head's relevance is the gradient at its gate, xi_h * df/dxi_h at xi_h = 1.

============================================  ==========================================================
operation                                     rule
============================================  ==========================================================
activation (GELU, SiLU, tanh of a pooler)     y = x * constant
layer norm, RMS norm                          the denominator is constant
product of two states (gated MLP, QK, AV)     half of the relevance to each factor
softmax of attention, `constant_attention`    constant: relevance passes only through the values
softmax of attention, `attnlrp`               its tangent, whose offset absorbs relevance as a bias does
============================================  ==========================================================

`constant_attention` is Ali et al. 2022, whose models have no gated MLP; `attnlrp` is Achtibat et al. 2024.
The former is the default: its relevance ends only in embeddings and biases, and it agrees equally well with
the effect of closing single heads. AttnLRP's library, lxt 2.1, does not work with transformers 5, supports
few of our types, and patches their modules permanently.
"""

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.overrides import TorchFunctionMode

from headspec.models.attention.interface import unfused
from headspec.models.gates import HeadGates

Rules = Literal["constant_attention", "attnlrp"]

SOFTMAX = {F.softmax, torch.softmax, torch.Tensor.softmax}
ROOTS = {torch.sqrt, torch.rsqrt, torch.Tensor.sqrt, torch.Tensor.rsqrt}
PRODUCTS = {
    torch.mul, torch.Tensor.mul, torch.Tensor.__mul__,
    torch.matmul, torch.Tensor.matmul, torch.Tensor.__matmul__, torch.bmm, torch.Tensor.bmm,
    torch.baddbmm,
}  # fmt: skip


@contextmanager
def propagating(gates: HeadGates, rules: Rules) -> Iterator[None]:
    """Inside the block, propagate relevance by `rules`. Outputs do not change; attention is unfused."""
    activations = register_module_forward_hook(_scaled)
    try:
        with unfused(gates.model), gates.watched(), _Propagation(rules, gates):
            yield
    finally:
        activations.remove()


@functools.cache
def _activations() -> tuple[type, ...]:
    """Return the activation classes that transformers defines or uses."""
    from transformers.activations import ACT2CLS  # slow to import

    return tuple(entry[0] if isinstance(entry, tuple) else entry for entry in ACT2CLS.values())


def _scaled(module: nn.Module, args: tuple[Any, ...], output: Any) -> Any:
    """Return the output of an activation as its input times a constant."""
    if not isinstance(module, _activations()):
        return output
    scale = (output / args[0]).detach()
    return args[0] * scale.nan_to_num(0, 0, 0)  # f(0) = 0: no relevance passes


class _Propagation(TorchFunctionMode):
    def __init__(self, rules: Rules, gates: HeadGates) -> None:
        super().__init__()
        self.constant_attention, self.gates = rules == "constant_attention", gates
        self.own = any(site.own for site in gates.sites)  # then every softmax is taken as attention's

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Any,
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.layer_norm:
            return _layer_norm(*args, **kwargs)
        output = func(*args, **kwargs)
        # there are softmaxes outside attention, such as in the router of a mixture of experts
        attending = self.own or self.gates.attending
        if func in ROOTS or (func in SOFTMAX and self.constant_attention and attending):
            return output.detach()
        factors = args[1:3] if func is torch.baddbmm else args[:2]
        if func in PRODUCTS and all(map(_is_state, factors)):
            output.register_hook(lambda gradient: gradient / 2)
        return output


def _layer_norm(
    x: torch.Tensor,
    shape: tuple[int, ...],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
) -> torch.Tensor:
    """Return `F.layer_norm` over the last dimension, (..., hidden), with a constant denominator."""
    x = x.float()  # as autocast does
    deviation = x - x.mean(-1, keepdim=True)
    scaled = deviation * (deviation.square().mean(-1, keepdim=True) + eps).rsqrt().detach()
    scaled = scaled if weight is None else scaled * weight
    return scaled if bias is None else scaled + bias


def _is_state(factor: Any) -> bool:
    """Return whether a factor is computed from states; weights and gates are leaves or views of leaves."""
    if not isinstance(factor, torch.Tensor) or not factor.requires_grad:
        return False
    return not (factor if factor._base is None else factor._base).is_leaf
