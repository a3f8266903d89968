"""The attention interface of transformers: replacing a module's attention, and modes of a model.

Nearly every model gets its attention function from `AttentionInterface` of transformers. It returns the
context vectors of all heads, (batch, tokens, heads, head size), before W_O mixes them. `get_interface` is
replaced instead of registering functions: some models compare their names (GPT-2's eager attention,
DeepSeek's sparse masks), and a model must stay watched if another implementation is chosen later.

Modules are not changed, so copies of a model are not watched. While a module is watched, functions compiled
by `torch.compile` run eagerly: their graphs ignore watchers, and may be shared with other models of the
class. After the last watcher everything is as before.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.overrides import TorchFunctionMode

from headspec.errors import ModelError
from headspec.models.attention.projections import is_packed

if TYPE_CHECKING:
    from transformers import AttentionInterface, PreTrainedModel


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put a model in evaluation mode inside the block; restore the mode of each module afterwards.

    Linear layers with packed weights stay in training mode: they have no dropout, and some have a derivative
    only there (4 bits of bitsandbytes on a CPU, which otherwise packs its weights another way).
    """
    training = {module: module.training for module in model.modules()}
    model.eval()
    for module in training:
        if is_packed(module):
            module.state_dict()  # packs them as in files
            module.training = True
    try:
        yield
    finally:
        for module, mode in training.items():
            module.training = mode


@contextmanager
def unfused(model: PreTrainedModel) -> Iterator[None]:
    """Compute attention step by step inside the block, so that its weights are available."""
    before = [(config, dict(vars(config))) for config in _configs(model)]
    try:
        model.set_attn_implementation("eager")
        yield
    finally:
        for config, attributes in before:  # parts of a model may use different implementations
            vars(config).clear()
            vars(config).update(attributes)


@contextmanager
def noted_types() -> Iterator[set[torch.dtype]]:
    """Collect the dtypes that a model computes with in the block."""
    types: set[torch.dtype] = set()

    class Noting(TorchFunctionMode):
        def __torch_function__(
            self, function: Any, _: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            result = function(*args, **(kwargs or {}))
            if isinstance(result, torch.Tensor):
                types.add(result.dtype)
            return result

    with Noting():
        yield types


def _configs(model: PreTrainedModel) -> list[Any]:
    """Return the configs of a model and of its parts."""
    configs: dict[int, Any] = {}
    waiting = [vars(module).get("config") for module in model.modules()]
    while waiting:
        config = waiting.pop()
        if hasattr(config, "sub_configs") and id(config) not in configs:
            configs[id(config)] = config
            waiting += [getattr(config, name, None) for name in config.sub_configs]
    return [*configs.values()]


#: context vectors (batch, tokens, heads, size), and attention weights or None
Attended = tuple[torch.Tensor, torch.Tensor | None]
#: attention of queries, keys and values, (batch, heads, tokens, size) each
Attention = Callable[..., Attended]
#: takes the usual attention, its module, queries, keys and values; called instead of that attention
Watcher = Callable[..., Attended]

_watchers: dict[nn.Module, list[Watcher]] = {}
_open = 0  # number of open blocks in which modules are watched
_undo = ExitStack()
#: GPT-2's attention that bypasses the interface (`reorder_and_upcast_attn`)
BESIDE = "_upcast_and_reordered_attn"


@contextmanager
def watched(module: nn.Module, watcher: Watcher, inside: bool = False) -> Iterator[None]:
    """Call `watcher` instead of a module's attention, around other watchers or `inside` all of them."""
    with as_written():
        module_class = type(module)
        usual = getattr(module_class, BESIDE, None)
        if usual and not hasattr(usual, "__wrapped__") and "get_interface" in _names(module_class.forward):

            @functools.wraps(usual)
            def beside(self: nn.Module, *states: torch.Tensor, **kwargs: Any) -> Attended:
                return _attend(usual, self, *states, **kwargs)

            _undo.enter_context(_replaced(module_class, BESIDE, beside))
        watchers = _watchers.setdefault(module, [])
        watchers.insert(0 if inside else len(watchers), watcher)
        try:
            yield
        finally:
            _watchers[module].remove(watcher)
            if not _watchers[module]:
                del _watchers[module]


@contextmanager
def as_written() -> Iterator[None]:
    """Inside the block, run models eagerly, and send their attention through `_attend`."""
    global _open
    if not _open:
        _install()
    _open += 1
    try:
        yield
    finally:
        _open -= 1
        if not _open:
            _undo.close()


def _install() -> None:
    from transformers import AttentionInterface  # slow to import

    if torch.compiler.is_compiling():
        raise ModelError("gates are set in a function that is compiled; compile the model instead")
    _undo.enter_context(torch.compiler.set_stance("force_eager"))
    usual = AttentionInterface.get_interface

    @functools.wraps(usual)
    def get_interface(
        self: AttentionInterface, attn_implementation: str, default: Callable[..., Any]
    ) -> Callable[..., Any]:
        return functools.partial(_attend, usual(self, attn_implementation, default))

    _undo.enter_context(_replaced(AttentionInterface, "get_interface", get_interface))


def _attend(
    function: Attention,
    module: nn.Module,
    query: torch.Tensor,
    key: torch.Tensor,
    value: torch.Tensor,
    *args: Any,
    **kwargs: Any,
) -> Attended:
    def attention(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> Attended:
        return function(module, query, key, value, *args, **kwargs)

    for watcher in _watchers.get(module, ()):
        attention = functools.partial(watcher, attention, module)
    return attention(query, key, value)


@contextmanager
def _replaced(module_class: type, name: str, function: Callable[..., Any]) -> Iterator[None]:
    own = vars(module_class).get(name)
    setattr(module_class, name, function)
    try:
        yield
    finally:
        if own is None:  # inherited
            delattr(module_class, name)
        else:
            setattr(module_class, name, own)


def _names(function: Callable[..., Any]) -> tuple[str, ...]:
    names: tuple[str, ...] = inspect.unwrap(function).__code__.co_names
    return names
