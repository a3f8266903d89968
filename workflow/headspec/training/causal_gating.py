"""Causal head gating of any model: what heads do for a loss, by soft gates under small penalties."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec.errors import NumericalError
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs
from headspec.heads.any_model.losses import Loss
from headspec.heads.any_model.scored import Scored
from headspec.models.attention.probe_inputs import check_model
from headspec.training.learnt_gates import Soft

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

FACILITATING, INTERFERING, IRRELEVANT = ROLES = ("facilitating", "interfering", "irrelevant")


@torch.inference_mode(False)
def causal_head_gating(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    *,
    penalty: float = 0.005,
    steps: int = 200,
    rate: float = 0.1,
    inputs: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return whether each head facilitates what a loss asks for, interferes with it, or neither.

    Soft gates, one for each head, first learn to lower the mean loss; the weights do not change. From there
    they are fitted twice: under a penalty that pulls all gates towards closed, which gives G-, and under one
    that pulls them towards open, which gives G+ (Nam et al. 2025, causal head gating). A head that the loss
    needs stays open in G-; a head that harms it stays closed in G+.

    Parameters
    ----------
    model, batches, loss, inputs, tokenizer, texts, labels, prompts, answers : as in `head_importance`
    penalty : force on the logit of each gate, in units of the loss: pulled towards closed, a head stays open
        only if the loss falls by more than four times this per unit of its gate
    steps : number of steps of each of the three fits, one batch each, in turn; gates need some 80 to open or
        close
    rate : learning rate of the logits, by Adam

    Returns
    -------
    table : DataFrame, a row for each head

        - layer, head
        - facilitating: G-; interfering: 1 - G+; irrelevant: G+ (1 - G-); all between 0 and 1, where gates are
          clipped at 0.018 and 0.982
        - role: the name of the largest of the three

    Roles hold for these examples. Where heads can stand in for each other, they show one solution of several:
    compare tables of different examples.

    Raises
    ------
    ValueError
        Arguments do not fit together, there are no batches, or `penalty`, `steps` or `rate` is not above 0.
    NumericalError
        A loss is not finite.
    ModelError, TypeError
        As in `head_importance` with a score that needs derivatives.

    Examples
    --------
    >>> table = headspec.causal_head_gating(model, batches)
    >>> table[table["role"] == "interfering"]
    """
    check_model(model)
    for name, value in (("penalty", penalty), ("steps", steps), ("rate", rate)):
        if value <= 0:
            raise ValueError(f"{name}: got {value:g}, expected more than 0")
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    read = [*user_model.read(model, batches, tokenizer, given)]
    if not read:
        raise ValueError("batches: got none")
    with user_model.measuring(model), ExitStack() as stack, torch.enable_grad():
        scored = Scored(*user_model.heads_and_loss(model, read[0], loss, inputs), True, stack)
        if scored.gates.folded:
            main = model.main_input_name
            read = [part for batch in read for part in user_model.one_by_one(batch, main)]
        fits = user_model.shown(range(3 * steps), "steps", 3 * steps)
        start = _fitted(scored, read, itertools.islice(fits, steps), rate, 0.0, None)
        closing = _fitted(scored, read, itertools.islice(fits, steps), rate, penalty, start)
        opening = _fitted(scored, read, itertools.islice(fits, steps), rate, -penalty, start)
        exists = scored.gates.exists
    layer, head = np.nonzero(exists)
    pulled, held = closing[exists], opening[exists]  # G-, G+
    values = np.stack([pulled, 1 - held, held * (1 - pulled)], axis=1)
    table = pd.DataFrame({"layer": layer, "head": head}).assign(**dict(zip(ROLES, values.T, strict=True)))
    return table.assign(role=np.array(ROLES)[values.argmax(axis=1)])


def _fitted(
    scored: Scored,
    batches: Sequence[Inputs],
    steps: Iterable[int],
    rate: float,
    penalty: float,
    start: NDArray[np.float64] | None,
) -> NDArray[np.float64]:
    """Return gates, (layers, heads), after `steps` under a penalty; they `start` there, or open if None."""
    gates = Soft(scored.gates.exists.shape, penalty)
    noise = torch.empty(0)  # not used
    if start is not None:
        with torch.no_grad():
            gates.scores.copy_(torch.logit(torch.from_numpy(start)))
    optimizer = torch.optim.Adam([gates.scores], lr=rate)
    for step, batch in zip(steps, itertools.cycle(batches), strict=False):
        scored.start(batch)
        with scored.gates.at(gates.draw(1.0, noise)):
            mean = scored.losses().mean()
            if not torch.isfinite(mean):
                raise NumericalError(f"causal_head_gating: nan or infinite loss in step {step}")
            (mean + gates.cost(1.0).to(mean.device)).backward()
        optimizer.step()
        optimizer.zero_grad()
    return gates.draw(1.0, noise).detach().double().numpy()
