"""Closed heads removed: an encoder without their rows of W_Q, W_K, W_V and their columns of W_O."""

from __future__ import annotations

import copy
import functools
import inspect
from itertools import groupby
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn
from transformers.pytorch_utils import Conv1D

from headspec.errors import EncoderError
from headspec.models.gates import HeadGates
from headspec.models.head_parameters import Slice, head_slices
from headspec.models.multitask import MultiTask

if TYPE_CHECKING:
    from transformers import PreTrainedModel

#: what attention modules call the number of their heads, the width of all, and query heads for each key head
COUNTS, WIDTHS = ("num_attention_heads", "n_head"), ("all_head_size", "split_size")
GROUPS = "num_key_value_groups"
#: layers that mix the attention maps of all heads, so that none can be left out (DeBERTa's talking heads)
MIXING = ("head_logits_proj", "head_weights_proj")


class Constant(nn.Module):
    """W_O of a layer without heads: its bias for every token, whatever the input."""

    def __init__(self, projection: nn.Module, hidden: int) -> None:
        super().__init__()
        bias = getattr(projection, "bias", None)
        self.bias = nn.Parameter(torch.zeros(hidden) if bias is None else bias.detach().clone())

    def forward(self, context: torch.Tensor) -> torch.Tensor:
        return self.bias.expand(*context.shape[:-1], -1)


class Grouped(nn.Module):
    """A projection to keys or values that query heads share; the output has one for each query head.

    Parameters
    ----------
    projection : its output is (batch, tokens, key heads * size)
    of_query : the key head of each query head
    """

    def __init__(self, projection: nn.Module, of_query: list[int], size: int) -> None:
        super().__init__()
        self.projection, self.size = projection, size
        self.register_buffer("of_query", torch.tensor(of_query))

    def forward(self, states: torch.Tensor) -> torch.Tensor:
        by_head = self.projection(states).unflatten(-1, (-1, self.size))
        return by_head.index_select(-2, self.of_query).flatten(-2)


@torch.no_grad()
def remove_heads(model: MultiTask, kept: np.ndarray) -> None:
    """Remove all heads but `kept`, in place: the model computes what it did with the gates of others at 0.

    A layer that keeps no head has the bias of W_O in place of its attention. Layers that share their weights
    (ALBERT) get attention weights of their own and go on sharing the others.

    Parameters
    ----------
    model : has no gates from then on
    kept : bool (layers, heads)

    Raises
    ------
    EncoderError
        A head of this encoder cannot be computed without the others.
    """
    encoder, gates = model.encoder, model.gates
    if kept.shape != (gates.layers, gates.heads):
        raise ValueError(f"kept heads: got {kept.shape}, expected {(gates.layers, gates.heads)}")
    mixing = [name for name, _ in encoder.named_modules() if name.endswith(MIXING)]
    if mixing:
        raise EncoderError(f"heads cannot be removed one by one: '{mixing[0]}' mixes their attention maps")
    if any(len(site.rows) > 1 for site in gates.sites):
        gates = _unshare(encoder, gates)
    slices = head_slices(gates, "qkvo")
    gates.remove()
    for layer in range(len(kept)):
        own = [each for each in slices if each.heads[layer].any()]
        _shrink(encoder, layer, own, kept[layer])


def _unshare(encoder: PreTrainedModel, gates: HeadGates) -> HeadGates:
    """Give each layer its own attention weights, and gates to them.

    ALBERT's groups of layers become as many as there are calls of them.
    """
    own = {id(each.parameter) for each in head_slices(gates, "qkvo")}
    gates.remove()
    transformer, n = encoder.encoder, encoder.config.num_hidden_layers
    groups, copies = transformer.albert_layer_groups, []
    for layer in range(n):
        group = groups[int(layer / (n / len(groups)))]
        shared = {id(p): p for p in group.parameters() if id(p) not in own}
        copies.append(copy.deepcopy(group, shared))
    transformer.albert_layer_groups = nn.ModuleList(copies)
    encoder.config.num_hidden_groups = n
    return HeadGates(encoder)


def _shrink(encoder: PreTrainedModel, layer: int, slices: list[Slice], kept: np.ndarray) -> None:
    """Remove all heads but `kept`, bool (heads,), from one layer.

    Parameters
    ----------
    slices : of its heads; those of W_O come last
    """
    paths = {id(parameter): path for path, parameter in encoder.named_parameters()}
    computed = kept if kept.any() else np.arange(len(kept)) == 0  # nothing reads what this one computes
    heads, size = np.flatnonzero(computed), slices[-1].stop - slices[-1].start
    attentions: dict[str, nn.Module] = {}
    grouped: dict[str, Grouped] = {}
    for _, group in groupby(slices, key=lambda each: id(each.parameter)):
        rows = [each for each in group if (each.heads[layer] & computed).any()]
        path, _, name = paths[id(rows[0].parameter)].rpartition(".")
        module, parent = encoder.get_submodule(path), path.rpartition(".")[0]
        attentions |= {path: module, parent: encoder.get_submodule(parent)}
        whole = torch.cat([each.of(each.parameter) for each in rows])
        setattr(module, name, nn.Parameter(whole.T.contiguous() if rows[0].across else whole))
        if any(each.heads[layer].sum() > 1 for each in rows):
            of_query = [i for head in heads for i, each in enumerate(rows) if each.heads[layer, head]]
            grouped[path] = Grouped(module, of_query, size)
    for each in attentions.values():
        _resize(each, heads, size)
    for place, keys in grouped.items():
        encoder.set_submodule(place, keys)
    if not kept.any():
        encoder.set_submodule(path, Constant(module, encoder.config.hidden_size))


def _resize(module: nn.Module, heads: np.ndarray, size: int) -> None:
    """Bring the numbers that a linear layer or an attention keeps, and its position biases, up to date.

    Parameters
    ----------
    heads : indices of those that are left
    size : of a head
    """
    sizes = dict.fromkeys(COUNTS, len(heads)) | dict.fromkeys(WIDTHS, len(heads) * size) | {GROUPS: 1}
    if isinstance(module, nn.Linear):
        sizes = dict(zip(("out_features", "in_features"), module.weight.shape, strict=True))
    elif isinstance(module, Conv1D):
        sizes = dict(zip(("nx", "nf"), module.weight.shape, strict=True))
    for name in sizes.keys() & vars(module).keys():
        setattr(module, name, sizes[name])
    if "position_bias" in inspect.signature(module.forward).parameters:
        module.register_forward_pre_hook(functools.partial(_own_biases, heads), with_kwargs=True)


def _own_biases(heads: np.ndarray, attention: nn.Module, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
    """Arguments of an attention whose `position_bias` (1, heads, tokens, tokens) is that of these heads."""
    call = inspect.signature(attention.forward).bind(*args, **kwargs)
    if call.arguments.get("position_bias") is not None:
        call.arguments["position_bias"] = call.arguments["position_bias"][:, heads]
    return call.args, call.kwargs
