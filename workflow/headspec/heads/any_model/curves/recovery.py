"""Which heads of a closed list suffice: a metric with the clean vectors of some of them restored."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import torch
from numpy.typing import NDArray

from headspec import head_arrays
from headspec.config.values import SAME_LAYERS, ZERO
from headspec.heads.ablations import Instead, closed_by
from headspec.heads.any_model import user_model
from headspec.heads.any_model.batches import Inputs, count
from headspec.heads.any_model.curves import closing
from headspec.heads.any_model.curves.curve import (
    ALL,
    BOTTOM,
    FEWEST,
    FEWEST_DRAWS,
    NONE,
    RANDOM,
    TOP,
    HeadSet,
    table,
)
from headspec.heads.any_model.curves.halves import halves
from headspec.heads.any_model.generated import Generated
from headspec.heads.any_model.head_importance import head_importance
from headspec.heads.any_model.losses import Evaluation, Loss
from headspec.heads.any_model.scored import Contexts
from headspec.heads.any_model.scores import chosen
from headspec.heads.ranking import bottom_heads, top_heads
from headspec.models.attention.probe_inputs import check_model
from headspec.models.gates import HeadGates
from headspec.seeds import derive

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

GREEDY = "greedy"
Floats = NDArray[np.float64]
#: returns a block in which, for part of a batch, the list is closed except for heads, bool (layers, heads)
Restore = Callable[[NDArray[np.bool_], slice], AbstractContextManager[None]]


@torch.inference_mode(False)
def recovery(
    model: PreTrainedModel,
    batches: Iterable[Inputs] | None = None,
    loss: Loss | None = None,
    *,
    heads: Any,
    metric: str | Loss | None = None,
    counts: Sequence[int] | None = None,
    draws: int = 20,
    score: str = GREEDY,
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
    """Return a metric of a model with a list of heads closed, and the vectors of some of them restored.

    A restored head has the context vectors of the unpruned model (activation patching: Vig et al. 2020, Meng
    et al. 2022), not those that it would compute with heads before it closed. A random half of the examples
    orders the heads of the list; the other half evaluates.

    Parameters
    ----------
    model, batches, loss, metric, confidence, inputs, tokenizer, texts, labels, prompts, answers : as in
        `head_curve`, but `metric` cannot be `Generated`
    heads : the list to close, of at least two: bool (layers, heads), ``{layer: [heads]}``, or pairs (layer,
        head)
    counts : numbers of heads to restore, from 1 to one fewer than the list; by default 1, 2, 4, 8, ...
    draws : number of random sets of each kind for each number of heads, at least five; more are drawn if it
        takes more to have every head of the list in one
    score : what orders the heads

        - ``greedy``: at each step, the head whose restoration lowers the mean loss of the first half most; a
          pass over this half for each head left
        - a score of `head_importance`, of the unpruned model

    scores : (layers, heads), your own scores, not computed on these examples: all examples then evaluate
    ablation : what takes the place of closed heads, as in `head_curve`
    seed : of the halves and the random sets

    Returns
    -------
    recovery : DataFrame, a row for each order and number, to be drawn by `plot_curve`

        - order: the restored heads of the list: 'none', its first ('top') or last heads ('bottom'), 'random'
          heads, random heads with as many in each layer as the first ('same_layers'), or 'all'
        - fraction of the list; restored, their number
        - value, low, high; difference from random heads, and its interval: as in `head_curve`;
          difference_layers, and its interval: of the first heads, from random ones with as many in each layer
        - recovered: (value - closed) / (unpruned - closed), where closed is the value of 'none' and unpruned
          that of 'all'; nan if closing the list changes nothing; recovered_low, recovered_high: its interval,
          like that of faithfulness in `head_curve`

        ``recovery.attrs["heads"]`` has the list in order, pairs (layer, head), the first restored first;
        ``attrs["metric"]`` and ``attrs["n"]`` are as in `head_curve`.

    Raises
    ------
    ValueError
        Arguments do not fit together.
    ModelError, NumericalError, TypeError
        As `head_importance`.

    Examples
    --------
    >>> top = headspec.top_heads(headspec.head_importance(model, others), 0.2)
    >>> found = headspec.recovery(model, batches, heads=top)
    >>> headspec.plot_curve(found)
    """
    check_model(model)
    if draws < FEWEST_DRAWS:
        raise ValueError(f"draws: got {draws}, expected at least {FEWEST_DRAWS}")
    closing.check(ablation)
    if not 0 < confidence < 1:
        raise ValueError(f"confidence: got {confidence:g}, expected a number between 0 and 1")
    if isinstance(metric, Generated):
        raise ValueError("metric: got Generated, whose tokens have no clean vectors; expected one of outputs")
    greedy = scores is None and score == GREEDY
    split = greedy or (scores is None and chosen(score, also=(GREEDY,)).weights is None)
    given = {"texts": texts, "labels": labels, "prompts": prompts, "answers": answers}
    evaluated = [*user_model.read(model, batches, tokenizer, given)]
    main, ranking = model.main_input_name, None
    if split:
        ranking, evaluated = halves(evaluated, main, np.random.default_rng(derive(seed, "halves")))
    elif (n := sum(count(batch, main) for batch in evaluated)) < FEWEST:
        raise ValueError(f"batches: got {n} examples, expected at least {FEWEST}")
    if scores is None and not greedy:
        scores = head_importance(model, ranking or evaluated, loss, score=score, inputs=inputs)
    with user_model.measuring(model), torch.no_grad():
        loss = loss or (_unused if metric and not greedy else None)
        gates, loss = user_model.heads_and_loss(model, evaluated[0], loss, inputs)
        closed = head_arrays.mask(heads, gates.exists, "heads")
        if (total := int(closed.sum())) < 2 or closed.ndim > 2:
            raise ValueError(f"heads: got {total}, expected a list of at least 2")
        if scores is None:
            assert ranking is not None
            by_head = _greedy(gates, ranking, loss, ablation, closed)
        elif (by_head := head_arrays.scores(scores, least=1).astype(np.float64)).shape != closed.shape:
            raise ValueError(f"scores: got {by_head.shape}, expected {closed.shape}")
        ranks = np.where(closed, by_head, np.nan)
        sets = [*_sets(ranks, _counts(counts, total), draws, seed)]
        evaluation = Evaluation(model, evaluated, len(sets), metric or loss)
        by_batch = zip(evaluated, _restorers(gates, ablation, ranking, evaluated, closed), strict=True)
        passes = ((batch, partial(restore, each.heads)) for batch, restore in by_batch for each in sets)
        for batch, block in user_model.shown(passes, "sets of heads", len(evaluated) * len(sets)):
            evaluation.add(batch, block)
    against = {RANDOM: "difference", SAME_LAYERS: "difference_layers"}
    found = table(sets, evaluation.values, confidence, evaluation.bounds, -1, 0, against=against)
    found.columns = found.columns.str.replace("faithfulness", "recovered").str.replace("heads", "restored")
    ordered = sorted(np.argwhere(closed).tolist(), key=lambda head: -ranks[tuple(head)])
    found.attrs = {"metric": evaluation.name, "n": evaluation.n, "heads": [*map(tuple, ordered)]}
    return found


def _unused(outputs: Any, batch: Inputs) -> torch.Tensor:
    """Stand in for the loss where only a metric is evaluated; it is never called."""
    raise NotImplementedError


def _counts(counts: Sequence[int] | None, total: int) -> list[int]:
    """Return the numbers of heads to restore. Raises ValueError if one is not from 1 to `total` - 1."""
    if counts is None:
        return [2**i for i in range(total.bit_length()) if 2**i < total]
    for each in counts:
        if each != int(each) or not 0 < each < total:
            raise ValueError(f"counts: got {each}, expected whole numbers from 1 to {total - 1}")
    return sorted({*map(int, counts)})


def _sets(by_head: Floats, counts: Sequence[int], draws: int, seed: int) -> Iterator[HeadSet]:
    """Yield the sets of heads to restore, from scores (layers, heads) of the list, nan elsewhere."""
    listed = ~np.isnan(by_head)
    total = int(listed.sum())
    yield HeadSet(NONE, 0.0, np.zeros_like(listed))
    for n in counts:
        fraction, top = n / total, top_heads(by_head, n)
        yield HeadSet(TOP, fraction, top)
        yield HeadSet(BOTTOM, fraction, bottom_heads(by_head, n))
        rng = np.random.default_rng(derive(seed, "restored", n))
        number = max(draws, math.ceil(total / n))
        for order, among in ((RANDOM, np.zeros(len(listed), int)), (SAME_LAYERS, np.arange(len(listed)))):
            for restored in _balanced(top, listed, among, number, rng):
                yield HeadSet(order, fraction, restored)
    yield HeadSet(ALL, 1.0, listed)


def _balanced(
    top: NDArray[np.bool_],
    listed: NDArray[np.bool_],
    among: NDArray[np.int_],
    draws: int,
    rng: np.random.Generator,
) -> Iterator[NDArray[np.bool_]]:
    """Yield random sets of listed heads, with as many as `top` in each group of layers `among`, (layers,).

    Each is drawn uniformly, but the numbers of sets that heads of a group are in differ by at most one: where
    one head does what the list does, independent sets may all lack it.
    """
    groups = [(listed & (among == group)[:, None], among == group) for group in np.unique(among)]
    drawn = [_in_turn(np.flatnonzero(heads), int(top[rows].sum()), draws, rng) for heads, rows in groups]
    for sets in zip(*drawn, strict=True):
        restored = np.zeros_like(listed)
        restored.flat[np.concatenate(sets)] = True
        yield restored


def _in_turn(
    places: NDArray[np.intp], n: int, draws: int, rng: np.random.Generator
) -> Iterator[NDArray[np.intp]]:
    """Yield sets of `n` places from random orders of all, one after the other."""
    left = places[:0]
    for _ in range(draws):
        if len(left) < n:
            order = rng.permutation(places)
            again = np.isin(order, left)  # no place is twice in a set
            left = np.concatenate([left, order[~again], order[again]])
        yield left[:n]
        left = left[n:]


def _restorers(
    gates: HeadGates,
    ablation: str,
    ranking: Sequence[Inputs] | None,
    evaluated: Sequence[Inputs],
    closed: NDArray[np.bool_],
) -> Iterator[Restore]:
    """Yield a function for each batch that closes the list `closed` there, except for restored heads."""
    replaced = closing.replacements(gates, ablation, ranking, evaluated)
    for batch, instead in zip(evaluated, replaced, strict=True):
        clean = closing.recorded(gates, batch)

        def restore(
            heads: NDArray[np.bool_],
            part: slice,
            clean: Contexts = clean,
            instead: Instead | None = instead,
        ) -> AbstractContextManager[None]:
            def vectors(row: int) -> torch.Tensor:
                restored = torch.from_numpy(heads[row, : clean[row].shape[2]]).to(clean[row].device)
                others = instead(row).to(clean[row]) if instead else torch.zeros_like(clean[row])
                return torch.where(restored[:, None], clean[row], others)

            return closed_by(gates, vectors, closed, part)

        yield restore


def _greedy(
    gates: HeadGates, batches: Sequence[Inputs], loss: Loss, ablation: str, closed: NDArray[np.bool_]
) -> Floats:
    """Return scores (layers, heads) of the list, the larger the earlier a head is restored; nan elsewhere."""
    places, scores = [*map(tuple, np.argwhere(closed))], np.full(closed.shape, np.nan)
    restored = np.zeros_like(closed)
    for left in range(len(places), 0, -1):
        candidates = [place for place in places if not restored[place]]
        sets = [restored.copy() for _ in candidates]
        for each, place in zip(sets, candidates, strict=True):
            each[place] = True
        evaluation = Evaluation(gates.model, batches, len(sets), loss)
        by_batch = zip(batches, _restorers(gates, ablation, None, batches, closed), strict=True)
        passes = ((batch, partial(restore, each)) for batch, restore in by_batch for each in sets)
        for batch, block in user_model.shown(
            passes, f"restoring one of {left} heads", len(batches) * len(sets)
        ):
            evaluation.add(batch, block)
        best = candidates[int(evaluation.values.mean(axis=1).argmin())]
        restored[best], scores[best] = True, left
    return scores
