"""Effects of heads on any metric of any model, from passes in which several heads are closed together."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from scipy.special import ndtri

from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.generated import Generated, Writing
from headspec.heads.any_model.losses import Evaluation, Loss
from headspec.heads.knockouts import joint
from headspec.models.attention.probe_inputs import check_model
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

#: fewest passes, for their variance
FEWEST = 8


@torch.inference_mode(False)
def joint_knockouts(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    *,
    metric: str | Loss | Generated | None = None,
    passes: int | None = None,
    share: float = joint.SHARE,
    confidence: float = 0.95,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return the effect of each head on a loss or metric, from passes without several random heads each.

    Effects are estimated by ridge regression (Bair et al. 2026) on how the metric changes. No derivative is
    needed: metrics may be of `Generated` answers, and weights quantised.

    Parameters
    ----------
    model, batches, loss, inputs, tokenizer, texts, labels, prompts, answers : as in `head_importance`
    metric : as in `head_curve`
    passes : number of passes over all examples, at least eight; by default as many as there are heads
    share : share of the heads that each pass closes, spread over layers
    confidence : of the intervals
    seed : of the closed heads

    Returns
    -------
    table : a row for each head

        - layer, head
        - effect: rise of the loss, or fall of the metric, when the head is closed
        - se: its standard error, from interactions with heads closed at the same time, noise, and examples
        - low, high: its interval, at this confidence for each head alone

    Raises
    ------
    ValueError
        Arguments do not fit together.
    ModelError, NumericalError, TypeError
        As `head_importance`.

    Examples
    --------
    >>> table = headspec.joint_knockouts(model, batches, metric="accuracy")
    >>> table[table["low"] > 0].nlargest(10, "effect")
    """
    check_model(model)
    for name, value in (("share", share), ("confidence", confidence)):
        if not 0 < value < 1:
            raise ValueError(f"{name}: got {value:g}, expected a number between 0 and 1")
    if loss is not None and metric is not None:
        raise ValueError("loss: not used with a metric; expected one of them")
    if passes is not None and passes < FEWEST:
        raise ValueError(f"passes: got {passes}, expected at least {FEWEST}")
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    read = [*user_model.read(model, batches, tokenizer, given)]
    measure: Any = metric
    if isinstance(metric, Generated):
        numbers = np.arange(sum(count(batch, model.main_input_name) for batch in read))
        measure = Writing(metric, model, tokenizer, read, answers, numbers)
    with user_model.measuring(model), torch.no_grad():
        if metric is None:
            gates, measure = user_model.heads_and_loss(model, read[0], loss, inputs)
        else:
            gates = user_model.gated(model, read[0], inputs)
        exists = gates.exists
        n = passes or max(FEWEST, int(exists.sum()))
        closed = joint.drawn(exists, n, np.random.default_rng(derive(seed, "knockouts")), share)
        sets = [exists & False, *closed]
        evaluation = Evaluation(model, read, len(sets), measure)
        blocks = ((batch, lambda _, heads=heads: gates.closed(heads)) for batch in read for heads in sets)
        for batch, block in user_model.shown(blocks, "knockouts", len(read) * len(sets)):
            evaluation.add(batch, block)
    if isinstance(measure, Writing):
        measure.warn()
    values = evaluation.values
    changes = (values[1:] - values[0]) * (1 if metric is None else -1)
    effects, se = joint.fitted(closed[:, exists], changes)
    effect, reach = effects.mean(axis=0), -ndtri((1 - confidence) / 2) * se
    layer, head = np.nonzero(exists)
    return pd.DataFrame({
        "layer": layer, "head": head, "effect": effect, "se": se,
        "low": effect - reach, "high": effect + reach,
    })  # fmt: skip
