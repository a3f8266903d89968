"""How a model's metric changes without its most important, least important, and random heads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.config.values import MEAN, RESAMPLE, SAME_LAYERS, ZERO
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.curves import closing
from headspec.heads.any_model.curves.faithfulness import faithfulness
from headspec.heads.any_model.curves.halves import assigned, divided
from headspec.heads.any_model.curves.intervals import Bounds, of_difference, of_mean
from headspec.heads.any_model.generated import Generated, Writing
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.any_model.losses import Evaluation, Loss, Measure
from headspec.heads.any_model.scores import chosen
from headspec.heads.masks import random_by_layer, random_heads
from headspec.heads.ranking import bottom_heads, prune_count, top_heads
from headspec.models.attention.probe_inputs import check_model
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

NONE, TOP, BOTTOM, RANDOM, ALL = "none", "top", "bottom", "random", "all"
#: fewest examples, for their variance
FEWEST = 2
#: fewest random sets, for their variance
FEWEST_DRAWS = 5
FAITHFULNESS = "faithfulness", "faithfulness_low", "faithfulness_high"
Floats = NDArray[np.float64]


class HeadSet(NamedTuple):
    """Heads: none, the most or least important, one of several random sets, of same layers or not, or all."""

    order: str
    fraction: float
    heads: NDArray[np.bool_]


@torch.inference_mode(False)
def head_curve(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    *,
    metric: str | Loss | Generated | None = None,
    fractions: Sequence[float] = (0.1, 0.2, 0.3, 0.5),
    draws: int = 20,
    same_layers: bool = False,
    score: str = "gradient",
    scores: Any = None,
    ablation: str = ZERO,
    confidence: float = 0.95,
    seed: int = 0,
    inputs: Mapping[str, Any] | None = None,
    tokenizer: PreTrainedTokenizerBase | None = None,
    texts: Sequence[str] | Sequence[tuple[str, str]] | None = None,
    labels: Sequence[Any] | None = None,
    prompts: Sequence[str] | None = None,
    answers: Sequence[str] | None = None,
) -> pd.DataFrame:
    """Return a metric of a model without its most important, least important, random, and all heads.

    A random half of the examples, stratified by class, ranks the heads; the other half evaluates the model
    without them, so that no ranking is judged on the examples that it was made from.

    Parameters
    ----------
    model, batches, loss, inputs, tokenizer, texts, labels, prompts, answers : as in `head_importance`
    metric : name of a metric of tasks, such as "accuracy", of `labels` and the class, score or labels with
        the largest logits; a function of outputs and batch that returns each example's value, (batch,); or
        `Generated`, of the answers that the model writes after `prompts`; by default the loss
    fractions : fractions of the model's heads to close, below 1 and each of at least one head
    draws : number of random sets of heads for each fraction, at least five
    same_layers : whether to draw as many more random sets with as many heads of each layer as the most
        important heads: these may do harm only because their layers matter
    score : as in `head_importance`; ``magnitude`` needs no examples, and all evaluate
    scores : (layers, heads), your own scores, not computed on these examples: all examples then evaluate
    ablation : what takes the place of the context vectors of closed heads

        - ``zero``: nothing
        - ``mean``: their means over the tokens of the half that ranks; where all examples evaluate, over the
          half of these that lacks the example itself
        - ``resample``: those of an example of the half that ranks; where all examples evaluate, of the
          example half of all further on; not for `Generated`
    confidence : of the intervals
    seed : of the halves and the random sets

    Returns
    -------
    curve : DataFrame, a row for each order and fraction, to be drawn by `plot_curve`

        - order: 'none', 'top', 'bottom', 'random', 'same_layers' or 'all'; fraction; heads, their number
        - value: the metric of the n examples; for random heads, the mean over draws
        - low, high: interval over examples; for random heads, over examples and draws; within the metric's
          bounds, if it has any
        - difference: value minus the value of random heads, for top and bottom heads, else nan;
          difference_low, difference_high: its interval over examples and random sets, wide enough to cover
          0 for one more random set; with `same_layers`, also difference_layers, for top heads, from random
          heads of the same layers
        - faithfulness: (value - all closed) / (unpruned - all closed), nan if the latter two are equal;
          faithfulness_low, faithfulness_high: its interval over examples, for random heads also over draws;
          infinite if the latter two do not differ more than examples do

        ``curve.attrs["metric"]`` is the name of the metric, and ``curve.attrs["n"]`` the number of examples.

    Raises
    ------
    ValueError
        Arguments do not fit together.
    ModelError, NumericalError, TypeError
        As `head_importance`.

    Examples
    --------
    >>> curve = headspec.head_curve(model, batches, metric="accuracy")
    >>> headspec.plot_curve(curve)
    """
    check_model(model)
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws: got {draws}, expected at least {FEWEST_DRAWS}")
    closing.check(ablation)
    if isinstance(metric, Generated) and ablation == RESAMPLE:
        raise ValueError(
            f"ablation: got '{ablation}' for generated answers, which have no vectors of other examples; "
            f"expected {ZERO} or {MEAN}"
        )
    rule = chosen(score, corrupted=False)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}, expected a number between 0 and 1")
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    evaluated = [*user_model.read(model, batches, tokenizer, given)]
    main, ranking = model.main_input_name, None
    numbers = np.arange(sum(count(batch, main) for batch in evaluated))
    if scores is None and rule.weights is None:
        half = assigned(evaluated, main, np.random.default_rng(derive(seed, "halves")))
        ranking, evaluated = divided(evaluated, main, half)
        numbers = np.flatnonzero(half)
    elif len(numbers) < FEWEST:
        raise ValueError(f"batches: got {len(numbers)} examples, expected at least {FEWEST}")
    measure: Measure | None = metric if not isinstance(metric, Generated) else Writing(
        metric, model, tokenizer, evaluated, answers, numbers
    )  # fmt: skip
    if scores is None:
        scores = head_importance(model, ranking or evaluated, loss, score=score, inputs=inputs)
    with user_model.measuring(model), torch.no_grad():
        gates, loss = user_model.heads_and_loss(
            model, evaluated[0], loss or (_unused if metric else None), inputs
        )
        by_head = head_arrays.scores(scores, least=1)
        if by_head.shape != gates.exists.shape:
            raise ValueError(f"scores: got {by_head.shape}, expected {gates.exists.shape}")
        sets = [*_sets(np.where(gates.exists, by_head, np.nan), fractions, draws, seed, same_layers)]
        evaluation = Evaluation(model, evaluated, len(sets), measure or loss)
        by_batch = zip(evaluated, closing.closers(gates, ablation, ranking, evaluated), strict=True)
        passes = ((batch, partial(close, each.heads)) for batch, close in by_batch for each in sets)
        for batch, closed in user_model.shown(passes, "sets of heads", len(evaluated) * len(sets)):
            evaluation.add(batch, closed)
    if isinstance(measure, Writing):
        measure.warn()
    against = {RANDOM: "difference"} | ({SAME_LAYERS: "difference_layers"} if same_layers else {})
    curve = table(sets, evaluation.values, confidence, evaluation.bounds, against=against)
    curve.attrs = {"metric": evaluation.name, "n": evaluation.n}
    return curve


def _unused(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Stand in for the loss where only a metric is evaluated; it is never called."""
    raise NotImplementedError


def _sets(
    scores: Floats, fractions: Sequence[float], draws: int, seed: int, same_layers: bool
) -> Iterator[HeadSet]:
    """Yield the empty set, for each fraction the top, bottom and random heads, and all heads."""
    exists = ~np.isnan(scores)
    total = int(exists.sum())
    yield HeadSet(NONE, 0.0, np.zeros_like(exists))
    for fraction in sorted({*map(float, fractions)}):
        n = prune_count(fraction, total) if 0 < fraction < 1 else 0
        if not n:
            raise ValueError(
                f"fractions: got {fraction:g}, expected less than 1, and at least one of {total} heads"
            )
        yield HeadSet(TOP, fraction, top := top_heads(scores, n))
        yield HeadSet(BOTTOM, fraction, bottom_heads(scores, n))
        for draw in range(draws):
            rng = np.random.default_rng(derive(seed, "random", f"{fraction:g}", draw))
            yield HeadSet(RANDOM, fraction, random_heads(exists, n, rng))
            if same_layers:
                rng = np.random.default_rng(derive(seed, SAME_LAYERS, f"{fraction:g}", draw))
                yield HeadSet(SAME_LAYERS, fraction, random_by_layer(top, exists, rng))
    yield HeadSet(ALL, 1.0, exists)


def table(
    sets: Sequence[HeadSet],
    by_example: Floats,
    confidence: float,
    bounds: Bounds,
    unpruned: int = 0,
    closed: int = -1,
    *,
    against: Mapping[str, str],
) -> pd.DataFrame:
    """Return values, differences and faithfulness with intervals, a row per fraction and order of `sets`.

    Parameters
    ----------
    by_example : (sets, n), values of examples, whose mean is the metric
    unpruned, closed : indices of the sets whose faithfulness is 1 and 0
    against : maps the order of random sets to the column with the difference from them; those of the same
        layers as the top heads are compared with these alone
    """
    groups: dict[tuple[float, str], list[int]] = {}
    for i, each in enumerate(sets):
        groups.setdefault((each.fraction, each.order), []).append(i)
    table_rows = []
    for (fraction, order), places in groups.items():
        values = by_example[places]
        low, high = of_mean(values, confidence, bounds)
        row: dict[str, Any] = {
            "order": order, "fraction": fraction, "heads": int(sets[places[0]].heads.sum()),
            "value": values.mean(), "low": low, "high": high,
        }  # fmt: skip
        for random, name in against.items():
            if order not in (TOP, BOTTOM) or (order == BOTTOM and random == SAME_LAYERS):
                continue
            drawn = by_example[groups[fraction, random]]
            low, high = of_difference(values[0], drawn, confidence, bounds)
            row |= {name: row["value"] - drawn.mean(), f"{name}_low": low, f"{name}_high": high}
        share = faithfulness(values, by_example[unpruned], by_example[closed], confidence, bounds)
        share = (share[0],) * 3 if order in (NONE, ALL) else share  # 1 and 0 by definition
        row |= dict(zip(FAITHFULNESS, share, strict=True))
        table_rows.append(row)
    return pd.DataFrame(table_rows)
