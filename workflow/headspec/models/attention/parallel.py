"""Heads that are divided over processes (tensor parallelism)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from headspec.errors import ModelError
from headspec.models.attention.projections import by_columns, inputs_first, is_linear, is_plain

if TYPE_CHECKING:
    from torch.distributed.device_mesh import DeviceMesh


@dataclass(frozen=True, eq=False)
class Division:
    """Processes that compute equal numbers of a layer's heads, in the order of their ranks.

    All of them run the same passes. What is whole, such as gates, is the same in each, as are its
    derivatives.
    """

    mesh: DeviceMesh

    def part(self, whole: torch.Tensor, dim: int) -> torch.Tensor:
        """Return this process's part of the heads, which are dimension `dim`."""
        from torch.distributed.tensor import DTensor, Replicate, Shard  # slow to import

        spread = DTensor.from_local(whole, self.mesh, [Replicate()], run_check=False)
        part: torch.Tensor = spread.redistribute(placements=[Shard(dim)]).to_local()
        return part

    def whole(self, part: torch.Tensor, dim: int) -> torch.Tensor:
        """Return the heads of all processes, which are dimension `dim`."""
        from torch.distributed.tensor import DTensor, Shard

        return DTensor.from_local(part, self.mesh, [Shard(dim)], run_check=False).full_tensor()


def processes(model: nn.Module) -> int:
    """Return the number of processes that transformers divides a model's layers over; 1 with FSDP2."""
    return getattr(model, "tp_size", None) or 1


def division(model: nn.Module, name: str, output: nn.Module | None, width: int) -> Division | None:
    """Return the processes that a site's heads are divided over; None if this one computes all of them.

    Parameters
    ----------
    name : of the site
    output : its W_O
    width : of the context vectors of all heads that this process computes

    Raises
    ------
    ModelError
        It is not known which heads these are.
    """
    weight: Any = output.weight if output is not None and is_linear(output) else None
    mesh: Any = getattr(weight, "device_mesh", None)
    if mesh is None and processes(model) == 1:
        return None
    if output is not None and (mesh is not None or (is_plain(weight) and _has_meshes(model))):
        if (inputs := len(inputs_first(output))) == width:
            return None
        placements = weight.placements if mesh else ()
        sharded = [i for i, each in enumerate(placements) if each.is_shard(int(by_columns(output)))]
        if len(sharded) == 1 and inputs == width * mesh.size(sharded[0]):
            return Division(mesh if mesh.ndim == 1 else mesh[mesh.mesh_dim_names[sharded[0]]])
    raise ModelError(
        f"'{name}' is divided over processes (tensor parallelism), and which heads each computes is not "
        "known; expected as many in each, and a W_O of floats that is a DTensor, as of recent versions of "
        "transformers"
    )


def _has_meshes(model: nn.Module) -> bool:
    """Return whether weights that are divided say so; those of older versions of transformers look whole."""
    return any(hasattr(weight, "device_mesh") for weight in model.parameters())


def is_divided(model: nn.Module) -> bool:
    """Return whether several processes run each pass of a model together (tensor parallelism or FSDP2)."""
    return processes(model) > 1 or _has_meshes(model)


def require_whole(model: nn.Module) -> None:
    """Raise ModelError if weights are divided over processes."""
    if is_divided(model):
        raise ModelError("its weights are divided over processes; expected a model that each has whole")
