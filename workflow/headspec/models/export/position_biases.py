"""Position biases that a model computes for all heads and passes to the attention of each layer."""

import functools
import inspect
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import numpy as np
import torch
from torch import nn

from headspec.models.attention.sites import Site


@contextmanager
def noted(sites: Iterable[Site]) -> Iterator[dict[nn.Module, set[str]]]:
    """Note the arguments of each attention module in the block that have a part for each head."""
    found: dict[nn.Module, set[str]] = {}

    def note(heads: int, module: nn.Module, args: tuple, kwargs: dict) -> None:
        (_, states), *others = inspect.signature(module.forward).bind(*args, **kwargs).arguments.items()
        found[module] |= {name for name, value in others if _by_head(value, heads, states)}

    with ExitStack() as stack:
        for site in sites:
            found[site.attention] = set()
            hook = functools.partial(note, site.heads)
            handle = site.attention.register_forward_pre_hook(hook, with_kwargs=True)
            stack.callback(handle.remove)
        yield found


def _by_head(value: Any, heads: int, states: torch.Tensor) -> bool:
    """Return whether an argument is (batch, heads, tokens, tokens) or ([batch *] heads, tokens, tokens)."""
    if not isinstance(value, torch.Tensor) or heads == 1:
        return False
    if value.dim() == 4:
        return value.shape[1] == heads
    sizes = (heads, heads * len(states))
    return value.dim() == 3 and value.shape[0] in sizes and value.shape != states.shape  # as of a residual


def select(attention: nn.Module, arguments: set[str], heads: int, kept: np.ndarray) -> None:
    """Pass an attention only the `kept` heads' parts of these arguments; `heads` counts all heads."""
    if arguments:
        hook = functools.partial(_selected, arguments, heads, kept.tolist())
        attention.register_forward_pre_hook(hook, with_kwargs=True)


def _selected(
    arguments: set[str], heads: int, kept: list[int], attention: nn.Module, args: tuple, kwargs: dict
) -> tuple[tuple, dict]:
    call = inspect.signature(attention.forward).bind(*args, **kwargs)
    for name in arguments & call.arguments.keys():
        value = call.arguments[name]
        if isinstance(value, torch.Tensor):
            whole = value if value.dim() == 4 else value.unflatten(0, (-1, heads))
            call.arguments[name] = whole[:, kept] if value.dim() == 4 else whole[:, kept].flatten(0, 1)
    return call.args, call.kwargs
