"""What a model loses without its most important heads, its least important ones, and random ones."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.heads.any_model import own
from headspec.heads.any_model.batches import Inputs, count, rows
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.any_model.losses import Evaluation, Loss, Measure
from headspec.heads.masks import random_heads
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.models.attention.probe_inputs import check_model
from headspec.seeds import derive
from headspec.statistics.intervals import Orders
from headspec.statistics.resampling import interval
from headspec.tasks.metrics import bootstrap_counts

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NONE, TOP, BOTTOM, RANDOM = "none", "top", "bottom", "random"
#: bootstrap samples of the examples
RESAMPLES = 2000
Floats = NDArray[np.float64]


class Closed(NamedTuple):
    """Heads that are closed: some of the first or last, or one of several random sets."""

    order: str
    fraction: float
    heads: NDArray[np.bool_]


@torch.inference_mode(False)
def head_curve(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    *,
    metric: Measure | None = None,
    fractions: Sequence[float] = (0.1, 0.2, 0.3, 0.5),
    draws: int = 20,
    score: str = "gradient",
    scores: Any = None,
    confidence: float = 0.95,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return a metric without a model's most important, least important and random heads.

    Every second example ranks heads, and the others evaluate the model without them, so that no ranking is
    judged on the examples that it was made of.

    Parameters
    ----------
    model, batches, loss, inputs, tokenizer, texts, labels, prompts, answers : as in `head_importance`
    metric : name of a metric of tasks, such as "accuracy", of `labels` and the class, score or labels with
        the largest logits; or a function of outputs and batch that returns each example's value, (batch,);
        by default the loss
    fractions : of the model's heads to close, each at least one head
    draws : number of random sets of heads for each fraction, at least two
    score : as in `head_importance`
    scores : (layers, heads), a ranking of one's own, not made of these examples: all of them evaluate
    confidence : of the intervals

    Returns
    -------
    curve : DataFrame, a row for each order and fraction, to be drawn by `plot_curve`

        - order: 'none', 'top', 'bottom' or 'random'; fraction; heads, their number
        - value: the metric of the n examples; of random heads the mean over draws
        - low, high: interval over examples, of random heads over examples and draws
        - difference: value minus the value of random heads; difference_low, difference_high: interval over
          examples and over random sets, from which one ranked by chance is not an exception

        ``curve.attrs["metric"]`` is the name of the metric, and ``curve.attrs["n"]`` the number of examples.

    Raises
    ------
    ValueError
        Arguments do not fit.
    ModelError, NumericalError, TypeError
        As `head_importance`.

    Examples
    --------
    >>> curve = headspec.head_curve(model, batches, metric="accuracy")
    >>> headspec.plot_curve(curve)
    """
    check_model(model)
    if draws < 2:
        raise ValueError(f"draws: got {draws}, expected at least 2")
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    every = [*own.read(model, batches, tokenizer, given)]
    main = model.main_input_name
    n = sum(count(batch, main) for batch in every)
    if n < (2 if scores is not None else 4):
        raise ValueError(f"batches: got {n} examples, expected at least {2 if scores is not None else 4}")
    evaluated = every
    if scores is None:
        scores = head_importance(model, _half(every, main, 0), loss, score=score, inputs=inputs)
        evaluated = [*_half(every, main, 1)]
    with own.measuring(model), torch.no_grad():
        gates, loss = own.heads_and_loss(model, evaluated[0], loss or (_unused if metric else None), inputs)
        by_head = head_arrays.scores(scores, least=1)
        if by_head.shape != gates.exists.shape:
            raise ValueError(f"scores: got {by_head.shape}, expected {gates.exists.shape}")
        sets = [*_sets(np.where(gates.exists, by_head, np.nan), fractions, draws, seed)]
        evaluation = Evaluation(gates, evaluated, metric or loss)
        for closed in own.shown(sets, "sets of heads"):
            evaluation.add(closed.heads)
    weights = bootstrap_counts(evaluation.n, RESAMPLES, np.random.default_rng(derive(seed, "examples")))
    observed, bootstrap = (
        evaluation.scores(np.ones((1, evaluation.n), dtype=int))[0],
        evaluation.scores(weights),
    )
    curve = _table(sets, observed, bootstrap, confidence)
    curve.attrs = {"metric": evaluation.name, "n": evaluation.n}
    return curve


def _unused(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Stand in for a loss, (batch,), where a metric is evaluated."""
    raise NotImplementedError


def _half(batches: Sequence[Inputs], main: str, half: int) -> Iterator[Inputs]:
    """Yield every second example, in the same batches."""
    before = 0
    for batch in batches:
        n = count(batch, main)
        first = (half - before) % 2
        before += n
        if first < n:
            yield rows(batch, slice(first, None, 2), main)


def _sets(scores: Floats, fractions: Sequence[float], draws: int, seed: int) -> Iterator[Closed]:
    """Yield no heads, and for each fraction the first, the last, and random ones."""
    exists = ~np.isnan(scores)
    total = int(exists.sum())
    yield Closed(NONE, 0.0, np.zeros_like(exists))
    for fraction in sorted({*map(float, fractions)}):
        n = prune_count(fraction, total) if 0 < fraction < 1 else 0
        if not n:
            raise ValueError(
                f"fractions: got {fraction:g}, expected one below 1 and at least one of {total} heads"
            )
        yield Closed(TOP, fraction, top_heads(scores, n))
        yield Closed(BOTTOM, fraction, bottom_heads(scores, n))
        for draw in range(draws):
            rng = np.random.default_rng(derive(seed, "random", f"{fraction:g}", draw))
            yield Closed(RANDOM, fraction, random_heads(exists, n, rng))


def _table(sets: Sequence[Closed], observed: Floats, bootstrap: Floats, confidence: float) -> pd.DataFrame:
    """Return values and intervals from scores (sets,) and of resampled examples (resamples, sets)."""
    groups: dict[tuple[float, str], list[int]] = {}
    for i, closed in enumerate(sets):
        groups.setdefault((closed.fraction, closed.order), []).append(i)
    table_rows = []
    for (fraction, order), places in groups.items():
        values, samples = observed[places], bootstrap[:, places]
        number = int(sets[places[0]].heads.sum())
        row: dict[str, Any] = {"order": order, "fraction": fraction, "heads": number, "value": values.mean()}
        if order == RANDOM:
            reach = _orders(values, samples, 1 / len(values)).reach(samples, 1 - confidence)
            row |= {"low": row["value"] - reach, "high": row["value"] + reach}
        else:
            row |= dict(zip(("low", "high"), interval(samples[:, 0], confidence), strict=True))
        if order in (TOP, BOTTOM):
            drawn = groups[fraction, RANDOM]
            others, of_others = observed[drawn], bootstrap[:, drawn]
            apart = samples - of_others.mean(axis=1, keepdims=True)
            reach = _orders(others, of_others, 1 + 1 / len(drawn)).reach(apart, 1 - confidence)
            difference = row["value"] - others.mean()
            row |= {
                "difference": difference,
                "difference_low": difference - reach,
                "difference_high": difference + reach,
            }
        table_rows.append(row)
    return pd.DataFrame(table_rows)


def _orders(values: Floats, bootstrap: Floats, share: float) -> Orders:
    """Return `share` of the variance between random sets, minus what the examples alone make of it.

    `values` are (draws,), `bootstrap` (resamples, draws). With a share of 1 + 1 / draws, it is the variance
    of another set's difference from the mean of these.
    """
    draws = len(values)
    examples = (bootstrap - bootstrap.mean(axis=1, keepdims=True)).var(axis=0).sum() / (draws - 1)
    return Orders(np.maximum(values.var(ddof=1) - examples, 0.0) * share, draws - 1)
