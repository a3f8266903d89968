"""The attention weights of each head: rows of W_Q, W_K and W_V, columns of W_O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import nn

from headspec.errors import EncoderError
from headspec.models.architectures import attentions
from headspec.models.gates import HeadGates

if TYPE_CHECKING:
    from transformers import PreTrainedModel


@dataclass(frozen=True)
class Slice:
    """A head's slice of one parameter.

    Attributes
    ----------
    parameter : the whole parameter
    across : whether the slice is of columns: in GPT's Conv1D, which is (in, out), and in W_O
    start, stop : range of rows or columns
    heads : bool (layers, heads)
        The heads that use the slice. There are several where weights are shared: by the query heads of a
        group (keys and values of grouped-query attention), or by layers with one module (ALBERT).
    """

    parameter: nn.Parameter
    across: bool
    start: int
    stop: int
    heads: np.ndarray

    def of(self, whole: torch.Tensor) -> torch.Tensor:
        """A view of the slice in a tensor `whole` with the shape of `parameter`."""
        return (whole.T if self.across else whole)[self.start : self.stop]

    def belongs(self, heads: np.ndarray) -> bool:
        """Whether one of `heads`, bool (layers, heads), uses the slice."""
        return bool((self.heads & heads).any())


def head_slices(encoder: PreTrainedModel, gates: HeadGates, projections: str) -> list[Slice]:
    """The slices of all heads in all attention projections.

    Parameters
    ----------
    projections : {"qkv", "qkvo"}
        Without or with W_O. The bias of W_O and norms of queries and keys (Qwen3) belong to no head.

    Raises
    ------
    EncoderError
        The names in the architecture table do not cover this encoder's queries, keys and values.
    """
    kind = encoder.config.model_type
    architectures = attentions(kind)
    modules, parameters = dict(encoder.named_modules()), dict(encoder.named_parameters())
    slices: list[Slice] = []
    for index, name in enumerate(gates.names):
        architecture = architectures[gates.kinds[index]]
        served = np.array([owner == index for owner in gates.owners])
        output = modules[name]
        is_linear = isinstance(output, nn.Linear)  # (out, in), so its inputs are columns
        width = output.weight.shape[1 if is_linear else 0]  # heads * size
        numbers = re.findall(r"\d+", name)
        rows = 0
        for pattern in architecture.inputs:
            full_name = pattern.replace("*", "{}").format(*numbers)
            module = modules.get(full_name)
            candidates = [parameters.get(full_name)] if module is None else [module.weight, module.bias]
            for parameter in (p for p in candidates if p is not None):
                across = parameter.dim() == 2 and not isinstance(module, nn.Linear)
                slices += _slices(parameter, across, width, gates.heads, architecture.interleaved, served)
                rows += parameter.shape[1 if across else 0] if parameter.dim() == 2 else 0
        if rows <= width:
            raise EncoderError(
                f"the architecture table lacks names of query, key or value projections of '{kind}' ({name})"
            )
        if projections == "qkvo":
            slices += _slices(output.weight, is_linear, width, gates.heads, False, served)
    return slices


def _slices(
    parameter: nn.Parameter, across: bool, width: int, heads: int, interleaved: bool, served: np.ndarray
) -> Iterator[Slice]:
    """The slices of one parameter.

    Parameters
    ----------
    width : heads * head size
    served : bool (layers,), the layers that use the parameter
    """
    rows, size = parameter.shape[1 if across else 0], width // heads
    kinds = max(rows // width, 1)  # 3 if it computes queries, keys and values
    step = size * kinds if interleaved else size
    for start in range(0, rows, step):
        number = start // step % heads  # of the head, among those in this parameter
        readers = np.arange(heads) // (width // min(rows, width)) == number
        yield Slice(parameter, across, start, start + step, served[:, None] & readers)
