"""Models without some heads: rows of W_Q, W_K and W_V and columns of W_O removed."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from torch import fx, nn
from transformers.pytorch_utils import Conv1D

from headspec import head_choice
from headspec.errors import EncoderError
from headspec.models.attention.gate_checks import first
from headspec.models.attention.probe_inputs import check_model
from headspec.models.attention.sites import KEPT, Site
from headspec.models.export import head_numbers, position_biases
from headspec.models.export.head_numbers import Numbers
from headspec.models.gates import HeadGates
from headspec.models.head_parameters import Slice, head_slices
from headspec.models.modes import evaluating, unfused

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: largest difference from outputs with closed gates, relative to the largest output
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-2}


@torch.inference_mode(False)
def remove_heads(
    model: PreTrainedModel, heads: Any, inputs: Mapping[str, torch.Tensor] | None = None
) -> PreTrainedModel:
    """Return a smaller model that computes what `model` does with some heads closed.

    It replaces `prune_heads` of transformers 4. A layer that keeps no head returns the bias of W_O. Heads of
    keys and values are removed with the last of their query heads. Layers that share weights (ALBERT) get
    their own attention weights and still share the others.

    Parameters
    ----------
    model : any model that `HeadGates` takes; it is not changed
    heads : bool (layers, heads), True to remove, such as ``top_heads(-scores, 0.3)``; or, as `prune_heads`
        took them, ``{layer: [heads]}``; or pairs (layer, head)
    inputs : as in `HeadGates`

    Returns
    -------
    smaller : a copy, of modules of transformers and torch. ``torch.save(smaller, path)`` keeps it, and
        ``torch.load(path, weights_only=False)`` loads it, without headspec unless positions have a bias for
        each head (MPNet, BLOOM). `save_pretrained` cannot keep it: no config lists a layer's heads.

    Raises
    ------
    EncoderError
        A head cannot be computed without the others, or the smaller model would not compute the same.
    ValueError
        `heads` has another form, or names heads that the model does not have.

    Examples
    --------
    >>> small = headspec.remove_heads(model, headspec.top_heads(-scores, 0.3))
    """
    check_model(model)
    smaller = copy.deepcopy(model)
    gates = HeadGates(smaller, inputs)
    heads = head_choice.mask(heads, gates.exists)
    with gates.closed(heads):
        expected = _outputs(gates)

    def same() -> bool:
        pairs = zip(_outputs(gates), expected, strict=True)
        return all((a - b).abs().max() <= TOLERANCE[b.dtype] * b.abs().max() for a, b in pairs)

    try:
        if any(len(np.unique(heads[site.rows], axis=0)) > 1 for site in gates.sites):
            gates = _unshared(gates)
        slices = head_slices(gates, "qkvo")
        parts = {site.attention: head_numbers.parts(site.attention) for site in gates.sites}
        with (
            head_numbers.noted(itertools.chain(*parts.values())) as read,
            position_biases.noted(gates.sites) as biases,
        ):
            _outputs(gates)
        changes: dict[nn.Module, tuple[Numbers, Numbers]] = {}
        for site in gates.sites:
            kept = ~heads[site.rows[0], : site.heads]
            if not kept.all():
                cut = _cut(smaller, site, slices, kept)
                position_biases.select(site.attention, biases[site.attention], site.heads, cut.kept)
                changes |= dict.fromkeys(parts[site.attention], (cut.before, cut.after))
        head_numbers.settle(changes, read, same)
    except EncoderError as error:
        kind = model.config.model_type
        raise EncoderError(f"these heads of this {kind} cannot be removed: {error}") from None
    return smaller


def _outputs(gates: HeadGates) -> list[torch.Tensor]:
    """Return outputs with the model's own implementation of attention, and with the eager one.

    They read different attributes: fused attention may infer from shapes how many heads share a key.
    """
    model = gates.model
    with evaluating(model), torch.no_grad():
        found = [first(model(**gates.inputs))]
        if model.config._attn_implementation != "eager" and not any(site.own for site in gates.sites):
            with unfused(model):
                found.append(first(model(**gates.inputs)))
    return found


def _unshared(gates: HeadGates) -> HeadGates:
    """Give each layer of an ALBERT a group of its own, with its own attention weights; return new gates."""
    model, own = gates.model, {id(part.parameter) for part in head_slices(gates, "qkvo")}
    stack: Any = next((module for module in model.modules() if hasattr(module, "albert_layer_groups")), None)
    if stack is None:
        name = next(site.name for site in gates.sites if len(site.rows) > 1)
        raise EncoderError(f"several layers are '{name}', and would keep different heads of it")
    groups, n, copies = stack.albert_layer_groups, stack.config.num_hidden_layers, []
    for layer in range(n):
        group = groups[int(layer / (n / len(groups)))]
        shared = {id(p): p for p in group.parameters() if id(p) not in own}
        copies.append(copy.deepcopy(group, shared))
    stack.albert_layer_groups = nn.ModuleList(copies)
    stack.config.num_hidden_groups = n
    return HeadGates(model, gates.inputs)


class _Cut(NamedTuple):
    """A site without some heads: indices of the computed ones, numbers before and after."""

    kept: np.ndarray
    before: Numbers
    after: Numbers


def _cut(model: PreTrainedModel, site: Site, slices: list[Slice], kept: np.ndarray) -> _Cut:
    """Remove all heads except `kept`, bool (heads,), from the weights of a site; `slices` are the model's."""
    assert site.output is not None
    hidden, names = site.columns().shape[-1], {module: name for name, module in model.named_modules()}
    computed = np.flatnonzero(kept if kept.any() else np.arange(len(kept)) == 0)  # unused if none is kept
    owners = {
        id(p): (module, name)
        for module in model.modules()
        for name, p in module.named_parameters(recurse=False)
    }
    used = [(part, frozenset(np.flatnonzero(part.heads[site.rows[0]]).tolist())) for part in slices]
    used = [(part, users) for part, users in used if users]
    # heads that share keys and values; what all share is mostly something else
    most = site.heads - (site.keys != 1)
    groups = {users for _, users in used if 1 < len(users) <= most}
    sizes = Counter(users for users in groups for head in computed if head in users)
    above = {module: model.get_submodule(name.rpartition(".")[0]) for module, name in names.items()}
    repeated = {module for module, parent in above.items() if hasattr(parent, "key_heads")}  # in a `Grouped`
    again = any(owners[id(part.parameter)][0] in repeated for part, _ in used)
    uneven = again or len(set(sizes.values())) > 1
    for _, parts in itertools.groupby(used, key=lambda pair: id(pair[0].parameter)):
        every = list(parts)
        rows = [(part, users) for part, users in every if not users.isdisjoint(computed)]
        parameter, across = every[0][0].parameter, every[0][0].across
        module, name = owners[id(parameter)]
        if not rows:
            raise EncoderError(f"'{names[module]}' is of one head alone")
        whole = torch.cat([part.view(parameter.detach()) for part, _ in rows])
        left = nn.Parameter(whole.T.contiguous() if across else whole, parameter.requires_grad)
        setattr(module, name, left)
        _resize(module)
        shared = [module in repeated or users in groups for _, users in rows]
        if not uneven or name != "weight" or not any(shared):
            continue
        if not all(shared):
            raise EncoderError(
                f"'{names[module]}' has queries, keys and values in one matrix, where heads of keys cannot "
                "serve different numbers of heads"
            )
        key_heads = [i for head in computed for i, (_, users) in enumerate(rows) if head in users]
        place = names[above[module] if module in repeated else module]
        model.set_submodule(place, plain(Grouped(module, key_heads)))
    if not kept.any():
        model.set_submodule(names[site.output], plain(Constant(site.output, hidden)))
    after = len(computed) if uneven or not groups else len(sizes)
    if site.own:
        vars(site.attention)[KEPT] = len(computed)
    before = Numbers(site.heads, site.keys or len(groups) or site.heads, site.size)
    return _Cut(computed, before, Numbers(len(computed), after, site.size))


def _resize(layer: nn.Module) -> None:
    """Update the sizes that a linear layer keeps."""
    if isinstance(layer, nn.Linear):
        layer.out_features, layer.in_features = layer.weight.shape
    elif isinstance(layer, Conv1D):
        layer.nx, layer.nf = layer.weight.shape


class Constant(nn.Module):
    """W_O of a layer without heads: its bias for every token."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__()
        weight: Any = projection.weight
        bias = getattr(projection, "bias", None)
        self.bias = nn.Parameter(weight.new_zeros(hidden) if bias is None else bias.detach().clone())

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        # uses only sizes, so that ONNX files do not compute the context (batch, tokens, width)
        return self.bias.expand(context.size(0), context.size(1), -1)


class Grouped(nn.Module):
    """A projection to shared keys or values, (batch, tokens, key heads * size), repeated by query head."""

    def __init__(self, projection: nn.Module, key_heads: Sequence[int]) -> None:
        super().__init__()
        weight: Any = projection.weight
        self.projection, self.keys = projection, max(key_heads) + 1
        self.register_buffer("key_heads", torch.tensor(key_heads, device=weight.device))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        by_head = self.projection(states).unflatten(-1, (self.keys, -1))
        return by_head.index_select(-2, self.key_heads).flatten(-2)


def plain(module: nn.Module) -> nn.Module:
    """Return a module that computes the same, and unpickles with torch alone."""

    class Tracer(fx.Tracer):  # a class that can be imported would be pickled as well
        def is_leaf_module(self, m: nn.Module, module_qualified_name: str) -> bool:
            return True

    graph = Tracer().trace(module)
    for node in graph.nodes:
        node.type = None  # the name of an annotation, which cannot be pickled
    return fx.GraphModule(module, graph, type(module).__name__)
