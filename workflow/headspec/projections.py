"""The part of an attention's weights that is each head's: rows of W_Q, W_K, W_V, columns of W_O."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn
from transformers import PreTrainedModel

from headspec.architectures import ARCHITECTURES
from headspec.errors import EncoderError
from headspec.gates import HeadGates


@dataclass(frozen=True)
class Slice:
    """A head's part of one parameter.

    Attributes
    ----------
    parameter : the whole
    across : whether the head's part is columns of it: of GPT's Conv1D, which is (in, out), or of W_O
    start, stop : the part, of the rows or columns
    heads : bool (layers, heads)
        The heads whose it is. Several, where weights are shared: by the query heads of a group
        (grouped-query attention's keys and values), or by the layers that a module serves (ALBERT).
    """

    parameter: nn.Parameter
    across: bool
    start: int
    stop: int
    heads: np.ndarray

    def of(self, whole: torch.Tensor) -> torch.Tensor:
        """The head's part, a view, of a tensor with the shape of `parameter`."""
        return (whole.T if self.across else whole)[self.start : self.stop]

    def belongs(self, heads: np.ndarray) -> bool:
        """Whether it is the part of one of `heads`, bool (layers, heads)."""
        return bool((self.heads & heads).any())


def head_slices(encoder: PreTrainedModel, gates: HeadGates, projections: str) -> list[Slice]:
    """Every head's part of every attention projection.

    Parameters
    ----------
    projections : {"qkv", "qkvo"}
        With or without W_O. Its bias is no head's, nor are norms of queries and keys (Qwen3).

    Raises
    ------
    EncoderError
        The architecture table does not say where this encoder's queries, keys and values are made.
    """
    kind = encoder.config.model_type
    architecture = ARCHITECTURES[kind]
    modules, parameters = dict(encoder.named_modules()), dict(encoder.named_parameters())
    found: list[Slice] = []
    for index, name in enumerate(gates.names):
        served = np.array([owner == index for owner in gates.owners])
        output = modules[name]
        turned = isinstance(output, nn.Linear)  # (out, in), so that its input is columns
        width = output.weight.shape[1 if turned else 0]  # heads * size
        numbers = re.findall(r"\d+", name)
        rows = 0
        for pattern in architecture.inputs:
            filled = pattern.replace("*", "{}").format(*numbers)
            module = modules.get(filled)
            own = [parameters.get(filled)] if module is None else [module.weight, module.bias]
            for parameter in (p for p in own if p is not None):
                across = parameter.dim() == 2 and not isinstance(module, nn.Linear)
                found += _slices(parameter, across, width, gates.heads, architecture.interleaved, served)
                rows += parameter.shape[1 if across else 0] if parameter.dim() == 2 else 0
        if rows <= width:
            raise EncoderError(
                f"the architecture table does not say where '{kind}' makes queries, keys and values ({name})"
            )
        if projections == "qkvo":
            found += _slices(output.weight, turned, width, gates.heads, False, served)
    return found


def _slices(
    parameter: nn.Parameter, across: bool, width: int, heads: int, interleaved: bool, served: np.ndarray
) -> Iterator[Slice]:
    """The parts of a parameter by head.

    Parameters
    ----------
    width : heads * head size
    served : bool (layers,), whose attention it is in
    """
    rows, size = parameter.shape[1 if across else 0], width // heads
    kinds = max(rows // width, 1)  # 3 where it makes queries, keys and values
    step = size * kinds if interleaved else size
    for start in range(0, rows, step):
        number = start // step % heads  # of the head, among those that this parameter has
        readers = np.arange(heads) // (width // min(rows, width)) == number
        yield Slice(parameter, across, start, start + step, served[:, None] & readers)
