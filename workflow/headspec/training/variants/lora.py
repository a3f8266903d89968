"""LoRA, a control of IAT: adapters of the same size, shared by all tasks, train instead of projections.

Hu et al. (2022), as implemented in `peft`: W + B A with B (out, rank), A (rank, in), and B initially zero.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
from torch import nn

from headspec.errors import ConfigError
from headspec.models.attention.head_parameters import Slice, head_slices
from headspec.progress import log
from headspec.seeds import derive
from headspec.training.iat import Restriction
from headspec.training.loop import Trainer
from headspec.training.trainable import insert
from headspec.training.updates import Updates


def adapter_rank(weights: list[nn.Parameter], slices: list[Slice], heads: dict[str, np.ndarray]) -> int:
    """Return the rank at which adapters have about as many parameters as a batch updates in IAT.

    There is one adapter for each matrix in `weights`; `slices` include biases; `heads` are those that each
    task owns in IAT, bool (layers, heads). If heads share weights, the number of parameters can differ
    between tasks; the mean is used. Raises ConfigError if even rank 1 has at least twice as many parameters.
    """
    counts = [sum(_size(s) for s in slices if s.belongs(owned)) for owned in heads.values()]
    in_iat = float(np.mean(counts))
    per_rank = sum(sum(weight.shape) for weight in weights)
    nearest = round(in_iat / per_rank)
    if nearest == 0:
        raise ConfigError(
            f"iat.controls: 'lora' cannot be as small as iat: a batch of iat updates {in_iat:,.0f} "
            f"parameters of the attention projections, adapters of rank 1 have {per_rank:,}; "
            "expected a larger iat.alpha"
        )
    log.info(
        "LoRA of rank %d: %s parameters; IAT updates %s", nearest, f"{nearest * per_rank:,}", f"{in_iat:,.0f}"
    )
    return nearest


def _size(s: Slice) -> int:
    return s.view(s.parameter.detach()).numel()


class LoRA(Restriction):
    """Low-rank adapters in the attention projections, whose weights and biases are frozen.

    Adapters have the learning rate of all other parameters, and moments that start at zero. `heads`, those
    that each task would own in IAT, determine the `rank`; `seed` determines the initial A.
    """

    @contextmanager
    def applied(self, run: Trainer) -> Iterator[None]:
        """Train adapters of `run` inside the context; on exit they are merged into the weights.

        Until then, the head gates do not apply to the adapters of W_O.
        """
        encoder, before = run.model.encoder, run.updates
        assert isinstance(before, Updates)
        slices = head_slices(run.model.gates, self.projections)
        frozen = {s.parameter for s in slices}
        weights = {
            name.removesuffix(".weight"): parameter
            for name, parameter in encoder.named_parameters()
            if parameter in frozen and parameter.dim() == 2
        }
        size = adapter_rank(list(weights.values()), slices, self.heads)
        adapters = insert(encoder, list(weights), size, derive(self.seed, "lora"))
        for parameter in encoder.parameters():
            parameter.requires_grad_(parameter not in frozen)
        updates = Updates(run.model, run.settings)
        for parameter in updates.parameters:
            if parameter in before.optimizer.state:
                updates.optimizer.state[parameter] = before.optimizer.state[parameter]
        run.updates = updates
        yield
        adapters.merge_and_unload()
        encoder.requires_grad_(True)


RESTRICTION = LoRA
