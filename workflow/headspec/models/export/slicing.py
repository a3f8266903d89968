"""Models without some heads: rows of W_Q, W_K and W_V and columns of W_O removed."""

from __future__ import annotations

import copy
import itertools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import nn

from headspec import head_arrays
from headspec.errors import ModelError
from headspec.models.attention.calls import KEPT
from headspec.models.attention.gate_checks import first
from headspec.models.attention.head_parameters import Slice, head_slices
from headspec.models.attention.interface import evaluating, noted_types, unfused
from headspec.models.attention.parallel import require_whole
from headspec.models.attention.plain_weights import check_plain
from headspec.models.attention.probe_inputs import check_model
from headspec.models.attention.projections import Grouped, by_columns
from headspec.models.attention.sites import Site
from headspec.models.export import config_numbers, emptied, head_numbers, structure
from headspec.models.export.dequantised import floats
from headspec.models.export.head_numbers import Numbers
from headspec.models.export.structure import Change
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: tolerated difference from outputs with closed gates, relative to the largest output
TOLERANCE = {torch.float64: 1e-8, torch.float32: 1e-4, torch.bfloat16: 3e-2, torch.float16: 3e-2}
#: the same for float64 outputs that pass through float32, as in many norms
ROUNDED = 1e-6


@torch.inference_mode(False)
def remove_heads(
    model: PreTrainedModel, heads: Any, inputs: Mapping[str, torch.Tensor] | None = None
) -> PreTrainedModel:
    """Return a smaller model that computes what `model` does with some heads closed.

    It replaces `prune_heads` of transformers 4. A layer without heads returns the bias of W_O, and has no
    queries, keys and values. A head of keys and values is removed with the last of its query heads. Layers
    that share weights (ALBERT) get their own attention weights and still share the others.

    Parameters
    ----------
    model : any model that `HeadGates` takes; it is not changed
    heads : bool (layers, heads), True to remove, such as ``top_heads(-scores, 0.3)``; or, as `prune_heads`
        took them, ``{layer: [heads]}``; or pairs (layer, head)
    inputs : as in `HeadGates`

    Returns
    -------
    smaller : a copy, which `headspec.save` writes; of floats, also where linear layers of `model` are
        quantised. Its config says which heads are left: by its head counts, where possible, so that
        ``from_pretrained`` loads it, else in an entry for `headspec.load`.

    Raises
    ------
    ModelError
        A head cannot be computed without the others, the smaller model would compute something else, or
        weights are offloaded, divided over processes, not finite, quantised outside of linear layers, or
        computed from others in each pass, as by torch's pruning.
    TypeError
        `model` is not a model of transformers.
    ValueError
        `heads` has another form, or names heads that the model does not have.

    Examples
    --------
    >>> small = headspec.remove_heads(model, headspec.top_heads(-scores, 0.3))
    """
    check_model(model)
    try:
        require_whole(model)
        plain = floats(model)
        check_plain(plain)
    except ModelError as error:
        raise ModelError(f"heads of this {model.config.model_type} cannot be removed: {error}") from None
    smaller = copy.deepcopy(model) if plain is model else plain
    gates = HeadGates(smaller, inputs)
    heads = head_arrays.mask(heads, gates.exists)
    with gates.closed(heads):
        expected = _outputs(smaller, gates)
    tolerance = _tolerance(smaller, gates)

    def same(model: PreTrainedModel = smaller) -> bool:
        pairs = zip(_outputs(model, gates), expected, strict=True)
        return all((a - b).abs().max() <= tolerance[b.dtype] * b.abs().max() for a, b in pairs)

    try:
        tied: dict[str, str] = {}
        if any(len(np.unique(heads[site.rows], axis=0)) > 1 for site in gates.sites):
            gates = _unshared(gates)
            structure.tie(smaller, tied := structure.shared(smaller))
        changes, numbers = _remove(gates, heads, same)
    except ModelError as error:
        model_type = model.config.model_type
        raise ModelError(f"these heads of this {model_type} cannot be removed: {error}") from None
    kept = {site.name: np.flatnonzero(~heads[site.rows[0], : site.heads]).tolist() for site in gates.sites}
    whole = not structure.of(smaller.config).get("modules") and all(kept.values())
    attentions = [site.attention for site in gates.sites]
    if changes and whole and config_numbers.set_config_numbers(smaller, attentions, numbers, same):
        changes = {}
    structure.note(smaller, kept, {site.name: site.heads for site in gates.sites}, changes, tied)
    return smaller


def _remove(
    gates: HeadGates, heads: np.ndarray, same: Callable[[], bool]
) -> tuple[dict[str, Change], dict[int, tuple[Numbers, Numbers]]]:
    """Remove `heads`, bool (layers, heads), from a model; `same` checks that it computes what it should.

    Returns changes of modules by name, and the numbers of each row before and after.
    """
    model, slices = gates.model, head_slices(gates, "qkvo")
    parts = {site.attention: head_numbers.number_parts(site.attention) for site in gates.sites}
    with (
        head_numbers.noted_numbers(itertools.chain(*parts.values())) as read,
        structure.noted_biases(gates.sites) as biases,
    ):
        _outputs(model, gates)
    names = {module: name for name, module in model.named_modules()}
    without = [site for site in gates.sites if heads[site.rows[0], : site.heads].all()]
    unused = [names[layer] for site in without for layer in emptied.projections(site, slices)]
    changes: dict[str, Change] = {}
    by_part: dict[nn.Module, tuple[Numbers, Numbers]] = {}
    by_row: dict[int, tuple[Numbers, Numbers]] = {}
    for site in gates.sites:
        kept = ~heads[site.rows[0], : site.heads]
        before = after = Numbers(site.heads, site.keys or site.heads, site.size)
        if not kept.all():
            cut, before, after = _cut(model, site, slices, kept, sorted(biases[site.attention]))
            for name, change in cut.items():
                structure.merge(changes, name, change)
            by_part |= dict.fromkeys(parts[site.attention], (before, after))
        by_row |= dict.fromkeys(site.rows, (before, after))
    for module, values in head_numbers.settle_numbers(by_part, read, same).items():
        structure.merge(changes, names[module], values)
    for name, change in emptied.zeroed(model, unused, lambda: _outputs(model, gates), same).items():
        structure.merge(changes, name, change)
    return changes, by_row


def _outputs(model: PreTrainedModel, gates: HeadGates) -> list[torch.Tensor]:
    """Return outputs for the inputs of `gates`, with the model's own attention and with eager attention.

    They read different attributes: fused attention may infer from shapes how many heads share a key.
    """
    with evaluating(model), torch.no_grad():
        outputs = [first(model(**gates.inputs))]
        if model.config._attn_implementation != "eager" and not any(site.own for site in gates.sites):
            with unfused(model):
                outputs.append(first(model(**gates.inputs)))
    return outputs


def _tolerance(model: PreTrainedModel, gates: HeadGates) -> dict[torch.dtype, float]:
    """Return the tolerance for each dtype of outputs, with `ROUNDED` if a model rounds to float32."""
    if next(model.parameters()).dtype != torch.float64:
        return TOLERANCE
    with noted_types() as types:
        _outputs(model, gates)
    return TOLERANCE | {torch.float64: ROUNDED} if torch.float32 in types else TOLERANCE


def _unshared(gates: HeadGates) -> HeadGates:
    """Give each layer of an ALBERT its own group and attention weights; ModelError for other types.

    Returns new gates.
    """
    model, own = gates.model, {id(part.parameter) for part in head_slices(gates, "qkvo")}
    stack: Any = next((module for module in model.modules() if hasattr(module, "albert_layer_groups")), None)
    if stack is None:
        name = next(site.name for site in gates.sites if len(site.rows) > 1)
        raise ModelError(f"several layers are '{name}', and would keep different heads of it")
    groups, n, copies = stack.albert_layer_groups, stack.config.num_hidden_layers, []
    for layer in range(n):
        group = groups[int(layer / (n / len(groups)))]
        shared = {id(p): p for p in group.parameters() if id(p) not in own}
        copies.append(copy.deepcopy(group, shared))
    stack.albert_layer_groups = nn.ModuleList(copies)
    stack.config.num_hidden_groups = n
    return HeadGates(model, gates.inputs)


def _cut(
    model: PreTrainedModel, site: Site, slices: list[Slice], kept: np.ndarray, biases: list[str]
) -> tuple[dict[str, Change], Numbers, Numbers]:
    """Remove all heads except `kept`, bool (heads,), from a site; return changes, numbers before and after.

    `slices` are the weights of the model's heads, `biases` the arguments that have a part for each head.
    """
    assert site.output is not None
    projection: Any = site.matrices()[0]
    if projection.weight.shape[int(by_columns(projection))] != site.heads * site.size:
        raise ModelError(f"'{site.name}' shares its weights with a layer that keeps other heads")
    hidden, names = site.columns().shape[-1], {module: name for name, module in model.named_modules()}
    computed = np.flatnonzero(
        kept if kept.any() else np.arange(len(kept)) == 0
    )  # the first, unused, if none is kept
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
    # a `Grouped` has its own name, not that of the projection inside it
    names |= {each.projection: names[each] for each in names if isinstance(each, Grouped)}
    again = {each.projection for each in names if isinstance(each, Grouped)}
    uneven = any(owners[id(part.parameter)][0] in again for part, _ in used) or len(set(sizes.values())) > 1
    shared = groups if uneven else set()
    values, changes = _left(used, computed.tolist(), shared, again, owners, names)
    after = len(computed) if uneven or not groups else len(sizes)
    if site.own:
        structure.merge(changes, names[site.attention], {"attributes": {KEPT: len(computed)}})
    if biases:
        taken = [biases, site.heads, computed.tolist()]
        structure.merge(changes, names[site.attention], {"biases": [taken]})
    structure.apply(model, changes)
    for module, name, value in values:
        getattr(module, name).data = value
    if not kept.any():
        changes[names[site.output]] = {"constant": hidden}
        structure.apply(model, {names[site.output]: changes[names[site.output]]})
    before = Numbers(site.heads, site.keys or len(groups) or site.heads, site.size)
    return changes, before, Numbers(len(computed), after, site.size)


def _left(
    used: list[tuple[Slice, frozenset[int]]],
    computed: list[int],
    groups: set[frozenset[int]],
    again: set[nn.Module],
    owners: Mapping[int, tuple[nn.Module, str]],
    names: Mapping[nn.Module, str],
) -> tuple[list[tuple[nn.Module, str, torch.Tensor]], dict[str, Change]]:
    """Return what is left of parameters (module, name, value), and the changes of their modules by name."""
    changes: dict[str, Change] = {}
    values: list[tuple[nn.Module, str, torch.Tensor]] = []
    for _, parts in itertools.groupby(used, key=lambda pair: id(pair[0].parameter)):
        every = list(parts)
        rows = [(part, users) for part, users in every if not users.isdisjoint(computed)]
        parameter, across = every[0][0].parameter, every[0][0].across
        module, name = owners[id(parameter)]
        if not rows:
            raise ModelError(f"'{names[module]}' is of one head alone")
        whole = torch.cat([part.view(parameter.detach()) for part, _ in rows])
        values.append((module, name, whole.T.contiguous() if across else whole))
        change = changes.setdefault(names[module], {"shapes": {}})
        change["shapes"][name] = list(values[-1][-1].shape)
        if name == "weight" and any(module in again or users in groups for _, users in rows):
            blocks = _blocks(rows, computed)
            if blocks is None:
                raise ModelError(
                    f"'{names[module]}' has queries, keys and values of a group side by side, where keys "
                    "cannot serve different numbers of heads"
                )
            change["key_heads"] = blocks
    return values, changes


def _blocks(rows: list[tuple[Slice, frozenset[int]]], computed: list[int]) -> list[int] | None:
    """Return the rows that each head uses: of keys, or in one matrix of queries, then keys, then values.

    None if there are rows of other sizes, or a head has none.
    """
    parts: list[list[int]] = []
    for number, (_, users) in enumerate(rows):
        if not parts or any(users & rows[other][1] for other in parts[-1]):
            parts.append([])
        parts[-1].append(number)
    blocks = [[i for i in part if head in rows[i][1]] for part in parts for head in computed]
    whole = all(blocks) and len({row.stop - row.start for row, _ in rows}) == 1
    return [i for part in blocks for i in part] if whole else None
