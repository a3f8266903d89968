"""Pruning of heads, from none to all, in the order of any measure; rankings are cross-fitted.

Examples of even folds are evaluated under masks ranked on odd folds, and vice versa, so that no measure is
judged on the examples that ranked the heads. Gates learn from training examples, so they rank the heads
equally for both halves of the validation examples.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd

from headspec.config.values import BOTTOM, IMPORTANCE, IMPORTANCE_ALL, RANDOM, RESCORED, SAME_LAYERS, TOP
from headspec.errors import DataError, listing, nearest
from headspec.head_arrays import as_array, existing, spread
from headspec.heads.importance import gate_gradients
from headspec.heads.masks import Mask, random_by_layer
from headspec.heads.pruning import under_masks
from headspec.heads.ranking import importance_map, joint_importance, prune_count, top_heads
from headspec.models.batching import Examples
from headspec.models.devices import Device
from headspec.models.multitask import MultiTask
from headspec.progress import Progress
from headspec.registry import require
from headspec.seeds import derive
from headspec.tables import FLOAT, INT, TEXT, Schema

CUMULATIVE = Schema(
    {"ranking": TEXT, "pruned_for": TEXT, "order": TEXT, "fraction": FLOAT, "draw": INT, "task": TEXT,
     "example": INT, "label": FLOAT, "prediction": FLOAT},
    keys=7,
    paths=("{run}/atlas/cumulative.parquet",),
    about={
        "pruned_for": "task whose examples order the heads; null if all tasks share the order",
    },
)  # fmt: skip


@dataclass(frozen=True)
class Ranking:
    """An order in which heads are pruned.

    Attributes
    ----------
    name : the measure, or pruning method, that ranks
    pruned_for : the task whose examples rank, or None if all tasks share the ranking
    order : "top" or "bottom"; "same_layers" for a random ranking with as many heads of each layer as that of
        the same name from the top; None for a random ranking
    draw : number of the random ranking; None for others
    maps : (2, layers, heads), from examples of even and of odd folds; the largest value is pruned first; nan
        where there is no head
    """

    name: str
    pruned_for: str | None
    order: str | None
    draw: int | None
    maps: np.ndarray


def levels(fraction: float, fractions: Sequence[float]) -> list[float]:
    """Return the fractions of a curve: `fractions`, the main `fraction`, no head and all heads."""
    return sorted({0.0, *fractions, fraction, 1.0})


def half_maps(heads: pd.DataFrame, task: str, measure: str) -> np.ndarray:
    """Return means of a measure over examples of even and of odd folds, (2, layers, heads).

    `heads` has the schema `HEAD_FOLDS`. Raises DataError if measure, task or one half is missing.
    """
    rows = heads[heads["measure"] == measure]
    if rows.empty:
        measures = heads["measure"].unique()
        raise DataError(
            f"no measure '{measure}' of heads; there is {listing(measures)}.{nearest(measure, measures)}"
        )
    parity = rows["fold"] % 2
    return np.stack([importance_map(rows[parity == half], task, "value") for half in (0, 1)])


def by_measures(heads: pd.DataFrame, measures: Sequence[str], tasks: Sequence[str]) -> list[Ranking]:
    """Return the ranking of each task by each measure and, for several tasks, `importance_all`.

    `importance_all` is the `joint_importance` of all tasks. Tasks share a measure that is the same for all,
    such as magnitudes, as one ranking. `heads` has the schema `HEAD_FOLDS`, from any
    source; larger values of `measures` must mean that a head matters more.
    """
    rankings = []
    for measure in measures:
        maps = {task: half_maps(heads, task, measure) for task in tasks}
        first, *others = maps.values()
        if others and all(np.allclose(each, first, rtol=1e-9, atol=0, equal_nan=True) for each in others):
            rankings.append(Ranking(measure, None, TOP, None, first))
            continue
        rankings += [Ranking(measure, task, TOP, None, task_rows) for task, task_rows in maps.items()]
        if measure == IMPORTANCE and len(tasks) > 1:
            rankings.append(Ranking(IMPORTANCE_ALL, None, TOP, None, joint_importance(list(maps.values()))))
    return rankings


def by_gates(name: str, gates: pd.DataFrame, tasks: Sequence[str]) -> list[Ranking]:
    """Return the ranking of each task by its learnt gates, the same for both halves of the examples.

    `name` is the pruning method that learnt them; `gates` is a table 'gates_of_run', with one set per task if
    there are several.
    """
    last = gates[gates["step"] == gates["step"].max()]
    rankings = []
    for task in tasks:
        task_rows = last[last["task"] == task] if len(tasks) > 1 else last
        scores = as_array(task_rows.set_index(["layer", "head"])["score"])
        rankings.append(Ranking(name, task, TOP, None, np.stack([scores, scores])))
    return rankings


def bottom_first(rankings: Sequence[Ranking]) -> list[Ranking]:
    """Return the reversed rankings: the heads that matter least are pruned first."""
    return [replace(ranking, order=BOTTOM, maps=-ranking.maps) for ranking in rankings]


def random_rankings(exists: np.ndarray, draws: int, seed: int) -> list[Ranking]:
    """Return `draws` random orders of the heads in `exists`, bool (layers, heads), shared by all tasks."""
    rankings = []
    for draw in range(draws):
        rng = np.random.default_rng(derive(seed, "cumulative random", draw))
        order = spread(rng.permutation(exists.sum()).astype(float), exists)
        rankings.append(Ranking(RANDOM, None, None, draw, np.stack([order, order])))
    return rankings


def same_layers(rankings: Sequence[Ranking], names: Collection[str], draws: int, seed: int) -> list[Ranking]:
    """Return `draws` random orders for each ranking with one of these `names`, top heads first.

    At every step they prune as many heads of each layer as that ranking: they shuffle its values within each
    layer.
    """
    drawn = []
    for ranking in rankings:
        for draw in range(draws if ranking.name in names and ranking.order == TOP else 0):
            purpose = "cumulative same layers", ranking.name, ranking.pruned_for or "", draw
            rng, exists = np.random.default_rng(derive(seed, *purpose)), existing(ranking.maps[0])
            places = random_by_layer(np.arange(exists.size).reshape(exists.shape), exists, rng)
            maps = ranking.maps.reshape(len(ranking.maps), -1)[:, places]  # the same order in both halves
            drawn.append(replace(ranking, order=SAME_LAYERS, draw=draw, maps=maps))
    return drawn


def rescored(
    model: MultiTask,
    examples: dict[str, Examples],
    rows: dict[str, np.ndarray],
    fractions: Sequence[float],
    device: Device,
    order: str = TOP,
) -> list[Ranking]:
    """Return rankings by importance (Eq. 4) recomputed after every step of pruning.

    A step goes from one of `fractions` (as from `levels`) to the next: it prunes the most or, with `order`
    "bottom", the least important of the remaining heads, measured while those pruned before are closed.
    `rows` has the rows of each task's examples, in the order of `sampled`. Raises ConfigError for other
    orders.
    """
    require("order", order, (TOP, BOTTOM))
    exists, sign = model.gates.exists, 1 if order == TOP else -1
    total = int(exists.sum())
    counts = [prune_count(fraction, total) for fraction in fractions]
    steps = [count for count in counts[1:] if count < total]
    progress = Progress(len(steps) * sum(map(len, rows.values())), "examples, importance again")
    rankings = []
    for task, task_rows in rows.items():
        maps = np.stack([np.where(exists, 0.0, np.nan)] * 2)  # (halves, layers, heads)
        for half, steps_closed in enumerate(maps):
            closed = np.zeros_like(exists)
            for count in steps:
                gradients = gate_gradients(
                    model, task, examples[task], task_rows[half::2], device, progress, closed
                )
                scores = sign * np.abs(gradients).mean(axis=0, dtype=float)  # (layers, heads)
                closed |= top_heads(np.where(closed, np.inf, scores), count)
                steps_closed += closed  # heads of earlier steps are counted more often
        rankings.append(Ranking(RESCORED, task, order, None, maps))
    return rankings


def cumulative(
    model: MultiTask,
    examples: dict[str, Examples],
    rows: dict[str, np.ndarray],
    rankings: Sequence[Ranking],
    fraction: float,
    fractions: Sequence[float],
    device: Device,
) -> pd.DataFrame:
    """Return predictions with the first heads of each ranking pruned, as rows of the schema `CUMULATIVE`.

    A task is evaluated at all fractions (see `levels`) under its own and the shared rankings, and at the main
    `fraction` (and without pruning) under the top heads of other tasks. Equal masks are evaluated once.
    `rows` has the rows of each task's examples, in the order of `sampled`.
    """
    model.to(device.name).eval()
    planned = {
        (task, half): _plan(rankings, task, half, fraction, fractions) for task in rows for half in (0, 1)
    }
    masked = sum(len(_distinct(plan)) * len(rows[task][half::2]) for (task, half), plan in planned.items())
    progress = Progress(masked, "masked examples")
    frames = []
    with device.cast():  # one context, so that weights are cast once
        for (task, half), plan in planned.items():
            half_rows, masks = rows[task][half::2], _distinct(plan)  # (rows,)
            predicted = under_masks(
                model, task, examples[task], half_rows, list(masks.values()), device, progress
            )
            place = {content: i for i, content in enumerate(masks)}
            for ranking, mask in plan:
                i = place[mask.closed.tobytes()]
                texts = None if predicted.texts is None else predicted.texts[i]
                frame = examples[task].predicted(task, predicted.values[i], texts, half_rows)
                frame = frame.assign(
                    ranking=ranking.name, pruned_for=ranking.pruned_for, order=mask.order, draw=mask.draw,
                    fraction=mask.fraction,
                )  # fmt: skip
                frames.append(frame)
    return pd.concat(frames, ignore_index=True).astype({"draw": "Int32"})


def _plan(
    rankings: Sequence[Ranking], task: str, half: int, fraction: float, fractions: Sequence[float]
) -> list[tuple[Ranking, Mask]]:
    """Return the masks, ranked by the other half, under which one half of a task's examples is evaluated."""
    plan = []
    for ranking in rankings:
        scores = ranking.maps[1 - half]
        own = ranking.pruned_for in (None, task)
        if not own and ranking.order != TOP:
            continue
        for level in levels(fraction, fractions) if own else (0.0, fraction):
            closed = top_heads(scores, prune_count(level, int(existing(scores).sum())))
            mask = Mask(ranking.pruned_for or ranking.name, ranking.order, level, ranking.draw, closed)
            plan.append((ranking, mask))
    return plan


def _distinct(plan: list[tuple[Ranking, Mask]]) -> dict[bytes, Mask]:
    """Return the distinct masks of a plan, by the bytes of their closed heads."""
    return {mask.closed.tobytes(): mask for _, mask in reversed(plan)}
