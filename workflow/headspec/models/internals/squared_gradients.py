"""Squared gradients of single examples, summed over a batch, in one backward pass.

The gradient of an example with respect to the weight of a linear layer is the product of the layer's input
and the gradient of its output, summed over tokens. Both come from one pass over the batch; only the product
is computed for each example (Goodfellow 2015; Dangel et al. 2020, BackPACK). For norms, biases and embeddings
it is a sum.
"""

from collections.abc import Callable, Sequence

import torch
from torch import nn
from torch.func import functional_call

#: number of gradient entries that a GPU computes at once; a CPU computes one example, which stays in its
#: cache
ON_GPU = 2**26

Loss = Callable[[], torch.Tensor]
Calls = list[tuple[torch.Tensor, torch.Tensor]]  # input and gradient of the output, (n, ...)
Sums = dict[str, torch.Tensor]


class Squares:
    """Squared gradients of the examples of batches, by parameter.

    The model's states must have the batch as first dimension. `sums` has, for each of `parameters`, the sum
    over all examples so far; `supported` tells whether they all belong to linear layers, norms or
    embeddings.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter]) -> None:
        self.parameters = list(parameters)
        self.sums = [torch.zeros_like(p) for p in self.parameters]
        wanted = {id(p): total for p, total in zip(self.parameters, self.sums, strict=True)}
        self._modules: dict[nn.Module, Sums] = {}
        for module in model.modules():
            own = dict(module.named_parameters(recurse=False)) if _kind(module) else {}
            if sums := {name: wanted[id(p)] for name, p in own.items() if id(p) in wanted}:
                self._modules[module] = sums
        n_parameters = sum(map(len, self._modules.values()))
        self.supported = n_parameters == len(self.parameters)

    def add(self, loss: Loss, size: int) -> None:
        """Add the squared gradients of `size` examples; `loss` returns the sum of their losses.

        ValueError if the input or output of a module does not have the examples as its first dimension.
        """
        calls: list[tuple[nn.Module, torch.Tensor, torch.Tensor]] = []

        def seen(module: nn.Module, args: tuple[torch.Tensor, ...], out: torch.Tensor) -> torch.Tensor:
            if len(out) == 1 < size and isinstance(module, nn.Embedding):  # positions are the same for all
                args, out = (args[0].expand(size, -1),), out.expand(size, *out.shape[1:])
            if len(out) != size or len(args[0]) != size:
                raise ValueError(f"a {type(module).__name__} has no example as its first dimension")
            calls.append((module, args[0].detach(), out))  # (examples, ...) both
            return out

        hooks = [module.register_forward_hook(seen) for module in self._modules]
        try:
            total = loss()
        finally:
            for hook in hooks:
                hook.remove()
        outs = [out for _, _, out in calls]
        grads = torch.autograd.grad(total, outs, allow_unused=True, materialize_grads=True)
        by_module: dict[nn.Module, list[tuple[torch.Tensor, torch.Tensor]]] = {}
        for (module, into, _), grad in zip(calls, grads, strict=True):
            by_module.setdefault(module, []).append((into, grad))
        for module, pairs in by_module.items():
            if add := _kind(module):
                add(module, pairs, self._modules[module])


def _linear(module: nn.Module, calls: Calls, sums: Sums) -> None:
    """Add gradients of a Linear, whose weight is (out, in), or of a Conv1D, (in, out)."""
    into, grad = (torch.cat([_by_token(part) for part in parts], 1) for parts in zip(*calls, strict=True))
    first, second = (into, grad) if _is_conv1d(module) else (grad, into)
    if "weight" in sums and grad.is_cuda:
        at_once = max(1, ON_GPU // sums["weight"].numel())
        for a, b in zip(first.split(at_once), second.split(at_once), strict=True):
            sums["weight"] += torch.bmm(a.mT, b).square_().sum(0)
    elif "weight" in sums:
        product = torch.empty_like(sums["weight"])
        for a, b in zip(first, second, strict=True):
            torch.mm(a.T, b, out=product)
            sums["weight"].addcmul_(product, product)
    if "bias" in sums:
        sums["bias"] += grad.sum(1).square().sum(0)


def _by_token(states: torch.Tensor) -> torch.Tensor:
    """Reshape (n, features) or (n, ..., features) to (n, tokens, features), in float32."""
    return states.float().reshape(len(states), -1, states.shape[-1])


def _norm(module: nn.Module, calls: Calls, sums: Sums) -> None:
    """Add gradients of a norm, whose output is linear in its weight and bias."""
    plain = {
        name: torch.full_like(p, float(name == "weight"))
        for name, p in module.named_parameters(recurse=False)
    }
    size = len(calls[0][1])
    factors = {"weight": lambda a: functional_call(module, plain, (a,)).float(), "bias": torch.ones_like}
    for name, total in sums.items():
        by_call = [(g.float() * factors[name](a)).reshape(size, -1, *total.shape).sum(1) for a, g in calls]
        total += torch.stack(by_call).sum(0).square().sum(0)


def _embedding(module: nn.Module, calls: Calls, sums: Sums) -> None:
    """Add gradients of an Embedding: sums over an example's tokens with the same index."""
    indices = torch.cat([a.flatten(1) for a, _ in calls], 1)
    grad = torch.cat([_by_token(g) for _, g in calls], 1)
    for index, example in zip(indices, grad, strict=True):
        used, inverse = index.unique(return_inverse=True)
        own = example.new_zeros(len(used), example.shape[1]).index_add_(0, inverse, example)
        sums["weight"].index_add_(0, used, own.square_())


def _is_conv1d(module: nn.Module) -> bool:
    """Return whether a module is a Conv1D of transformers, which is slow to import."""
    return type(module).__name__ == "Conv1D"


def _kind(module: nn.Module) -> Callable[[nn.Module, Calls, Sums], None] | None:
    """Return the function for a kind of module; None for an unknown kind."""
    if isinstance(module, nn.Linear) or _is_conv1d(module):
        return _linear
    if type(module).forward is nn.Embedding.forward:  # BART's positions take no indices
        return _embedding
    return _norm if type(module).__name__.endswith("Norm") else None
