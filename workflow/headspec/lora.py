"""LoRA of the size of IAT, as its control: adapters, shared by all tasks, learn in place of the projections.

Hu et al. (2022), by `peft`: W + B A with B (out, rank) and A (rank, in), B zero at first.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np
import torch
from torch import nn

from headspec.accumulation import random_state, set_random_state
from headspec.errors import ConfigError
from headspec.progress import log
from headspec.projections import Slice, head_slices
from headspec.seeds import derive
from headspec.training import Trainer
from headspec.updates import Updates


def rank(weights: list[nn.Parameter], slices: list[Slice], heads: dict[str, np.ndarray]) -> int:
    """The rank at which adapters of `weights` have about as many parameters as IAT lets a batch move.

    Parameters
    ----------
    weights : matrices, one adapter each
    slices : every head's part of the projections, biases included
    heads : task: bool (layers, heads), its own ones in IAT
        Where heads share weights, tasks can move different numbers of them; then it is the mean.

    Raises
    ------
    ConfigError
        Adapters of rank 1 are more than twice as many.
    """
    moved = [sum(_size(part) for part in slices if part.belongs(own)) for own in heads.values()]
    aim = float(np.mean(moved))
    each = sum(sum(weight.shape) for weight in weights)
    found = round(aim / each)
    if found == 0:
        raise ConfigError(
            f"iat.controls: 'lora' cannot be as small as iat, in which a batch moves {aim:,.0f} parameters "
            f"of the attention's projections: adapters of rank 1 have {each:,}; expected a larger iat.alpha"
        )
    log.info("LoRA of rank %d: %s parameters; IAT moves %s", found, f"{found * each:,}", f"{aim:,.0f}")
    return found


def _size(part: Slice) -> int:
    return part.of(part.parameter.detach()).numel()


@dataclass(frozen=True)
class LoRA:
    """Low-rank adapters in the attention's projections, whose own weights and biases stay.

    Their scale is 1 (``lora_alpha`` is the rank), as if B A were learnt in W; they have no dropout
    of their own, the learning rate of everything else, and moments that begin with them.

    Attributes
    ----------
    heads : task: bool (layers, heads), what the task would move in IAT, for the `rank`
    projections : {"qkv", "qkvo"}, the projections that have adapters, with or without W_O
    seed : of the run; A is drawn from it
    """

    heads: dict[str, np.ndarray]
    projections: str
    seed: int

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        """Inside it adapters of `run` learn; then they are merged into the weights, and gone.

        Until they are merged, the head gates do not reach the adapters of W_O.
        """
        from peft import LoraConfig, LoraModel  # half a second that the other ways of training save

        encoder, before = run.model.encoder, run.updates
        assert isinstance(before, Updates)
        slices = head_slices(encoder, run.model.gates, self.projections)
        fixed = {part.parameter for part in slices}
        weights = {
            name.removesuffix(".weight"): parameter
            for name, parameter in encoder.named_parameters()
            if parameter in fixed and parameter.dim() == 2
        }
        size = rank(list(weights.values()), slices, self.heads)
        config = LoraConfig(
            r=size,
            lora_alpha=size,
            target_modules=list(weights),
            fan_in_fan_out=not isinstance(encoder.get_submodule(next(iter(weights))), nn.Linear),
        )
        randomness = random_state()
        torch.manual_seed(derive(self.seed, "lora"))
        adapters = LoraModel(encoder, config, "default")
        set_random_state(randomness)
        for parameter in encoder.parameters():
            parameter.requires_grad_(parameter not in fixed)
        updates = Updates(run.model, run.settings)
        for parameter in updates.parameters:
            if parameter in before.optimizer.state:
                updates.optimizer.state[parameter] = before.optimizer.state[parameter]
        run.updates = updates
        yield
        adapters.merge_and_unload()
        encoder.requires_grad_(True)
