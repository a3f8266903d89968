"""Important attention-head training (IAT): a batch updates only the heads of its task.

The other rows of W_Q, W_K and W_V, and their moments, stay bitwise the same. With adapters, they are rows of
W + B A.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar

import numpy as np
import torch
from torch import nn

from headspec.models.attention.head_parameters import Slice, head_slices
from headspec.models.saved import adapters
from headspec.training.iat import Restriction, all_own_every_head
from headspec.training.loop import Trainer
from headspec.training.updates import Updates, clip, gradient

#: a slice's moments (n,) and step count in an optimizer; empty before its first step
Moments = dict[str, torch.Tensor]


def moments(part: Slice, state: dict[Any, Any]) -> Moments:
    """Return the moments of a slice from the `state` of an optimizer over whole parameters."""
    whole = state.get(part.parameter, {})
    return {name: v if name == "step" else part.view(v).flatten() for name, v in whole.items()}


def trained_slices(run: Trainer, projections: str) -> list[Slice]:
    """Return the slices of heads in what trains: in the projections, or in their adapters.

    In W + B A, a head's rows of B are its own, or in W_O its columns of A. The other factor changes all
    heads: its slice belongs to none.
    """
    with run.device.cast():  # weights may have the type that it multiplies in
        slices = head_slices(run.model.gates, projections)
    factors = adapters(run.model.encoder)
    if not factors:
        return slices
    by_parameter: dict[nn.Parameter, list[Slice]] = {}
    for each in slices:
        by_parameter.setdefault(each.parameter, []).append(each)
    trained: list[Slice] = []
    for layer in (name.removesuffix(".A") for name in factors if name.endswith(".A")):
        a, b = factors[f"{layer}.A"], factors[f"{layer}.B"]
        if a not in by_parameter:  # a layer outside the projections
            continue
        own, shared = (a, b) if by_parameter[a][0].across else (b, a)
        nobody = np.zeros_like(run.model.gates.exists)
        trained += [*by_parameter[own], Slice(shared, False, 0, len(shared), nobody)]
    return trained


class SliceGroup:
    """Slices of the projections that the same tasks own, with a joined `copy`, a vector (n,)."""

    def __init__(self, slices: list[Slice]) -> None:
        self.slices = slices
        self.weights = [s.view(s.parameter.detach()) for s in slices]  # views of the model's weights
        self.copy = self.joined([s.parameter.detach() for s in slices])
        self.sizes = [weight.numel() for weight in self.weights]
        chunks = self.copy.split(self.sizes)
        self.views = [chunk.view(w.shape) for chunk, w in zip(chunks, self.weights, strict=True)]

    def joined(self, tensors: list[torch.Tensor]) -> torch.Tensor:
        """Return the slices of tensors shaped like the slices' parameters, joined to (n,)."""
        return torch.cat([s.view(tensor).flatten() for s, tensor in zip(self.slices, tensors, strict=True)])

    def read(self) -> None:
        """Copy from the model's weights."""
        torch._foreach_copy_(self.views, self.weights)

    def write(self) -> None:
        """Copy to the model's weights."""
        torch._foreach_copy_(self.weights, self.views)


class OwnHeads:
    """AdamW steps in which a batch updates only those heads in the attention projections that its task owns.

    Slices that the same tasks own, with equal step counts, are one parameter of the optimizer, a copy that is
    written back after each step: a few long vectors cost less than hundreds of short ones. Slices of other
    tasks get no gradient, so AdamW skips them: weights, moments and step counts do not change, and there is
    no weight decay. A row that several heads share is updated if the task owns any of them. Gradients are
    clipped by the norm over all parameters, as without IAT. Arguments are those of `leaking.LeakingUpdates`.
    """

    def __init__(self, updates: Updates, slices: list[Slice], owned: dict[str, np.ndarray]) -> None:
        self.updates, self.slices = updates, slices
        self.restricted = list(dict.fromkeys(s.parameter for s in slices))
        restricted = set(map(id, self.restricted))
        self.unrestricted = [p for p in updates.parameters if id(p) not in restricted]
        self.own(owned, [moments(s, updates.optimizer.state) for s in slices])
        for parameter in self.restricted:
            updates.optimizer.state.pop(parameter, None)

    def own(self, owned: dict[str, np.ndarray], before: list[Moments]) -> None:
        """Assign heads to tasks, bool (layers, heads) each; `before` has the moments of every slice."""
        self.owned = owned
        groups: dict[tuple[tuple[str, ...], int], list[int]] = {}
        for i, s in enumerate(self.slices):
            owners = tuple(task for task, mask in owned.items() if s.belongs(mask))
            groups.setdefault((owners, int(before[i].get("step", 0))), []).append(i)
        self.groups = {key: SliceGroup([self.slices[i] for i in places]) for key, places in groups.items()}
        decay = self.updates.optimizer.defaults["weight_decay"]
        copies = [group.copy for group in self.groups.values()]
        self.optimizer = torch.optim.AdamW(copies, weight_decay=decay, fused=True)
        for group, places in zip(self.groups.values(), groups.values(), strict=True):
            first = before[places[0]]
            if first:
                averages = {
                    name: torch.cat([before[i][name] for i in places]) for name in first if name != "step"
                }
                self.optimizer.state[group.copy] = {"step": first["step"].clone(), **averages}

    def step(self, task: str, rate: float) -> torch.Tensor:
        owned = [group for (owners, _), group in self.groups.items() if task in owners]
        for group in owned:
            group.copy.grad = group.joined([gradient(s.parameter) for s in group.slices])
        norm = torch.nn.utils.get_total_norm([gradient(p) for p in self.updates.parameters])
        for parameter in self.restricted:
            parameter.grad = None
        updated = self.unrestricted + [group.copy for group in owned]
        clip(updated, self.updates.clip, norm)
        self.updates.apply(rate)
        for param_group in self.optimizer.param_groups:
            param_group["lr"] = rate
        self.optimizer.step()
        self.optimizer.zero_grad()
        for group in owned:
            group.write()
        return norm

    def state_dict(self) -> dict[str, Any]:
        return {"updates": self.updates.state_dict(), "owned": self.optimizer.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore the state; the model's weights must have been loaded before."""
        self.updates.load_state_dict(state["updates"])
        self.optimizer.load_state_dict(state["owned"])
        for group in self.groups.values():
            group.read()


class Own(Restriction):
    """Batches update only the heads that their task owns."""

    updates: ClassVar[type[Any]] = OwnHeads  # an `UpdateRule` from updates, slices and owned heads

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        if not all_own_every_head(self.heads, run.model.gates.exists):
            assert isinstance(run.updates, Updates)
            slices = trained_slices(run, self.projections)
            run.updates = self.updates(run.updates, slices, self.heads)
        yield


RESTRICTION = Own
