"""Tasks of lm-evaluation-harness without a set of heads, and without random heads."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import torch

from headspec import head_arrays
from headspec.config.values import SAME_LAYERS
from headspec.errors import MissingError
from headspec.heads.any_model import user_model
from headspec.heads.any_model.halving import halves
from headspec.heads.masks import random_by_layer, random_heads
from headspec.models.attention.probe_inputs import check_model
from headspec.models.devices import MEMORY_ERRORS
from headspec.models.gates import HeadGates
from headspec.progress import log
from headspec.seeds import derive

NONE, CLOSED, RANDOM = "none", "closed", "random"


class Found(NamedTuple):
    """A metric of a task, its standard error (nan if the harness gives none), and whether more is better."""

    value: float
    error: float
    higher: bool


def evaluate(
    lm: Any,
    tasks: Sequence[str | dict[str, Any]],
    heads: Any,
    *,
    draws: int = 5,
    seed: int = 0,
    **settings: Any,
) -> pd.DataFrame:
    """Return metrics of lm-evaluation-harness with all heads, without some, and without random heads.

    Parameters
    ----------
    lm : ``lm_eval.models.huggingface.HFLM`` of any model that `HeadGates` takes, also a smaller one of
        `remove_heads`; its batch size is halved where batches do not fit in memory
    tasks : as in ``lm_eval.simple_evaluate``: names, or configs of tasks
    heads : heads to close: bool (layers, heads), ``{layer: [heads]}``, or pairs (layer, head)
    draws : number of random sets with as many heads, and of those with as many in each layer
    seed : of the random sets
    settings : more arguments of ``lm_eval.simple_evaluate``, such as ``limit`` and ``num_fewshot``

    Returns
    -------
    table : a row for each task, metric and order

        - task; metric, with its filter if it has one
        - order: 'none', 'closed', 'random', or 'same_layers', random heads of the layers of those closed
        - heads, their number
        - value: for random heads, the mean over draws
        - se: the harness's standard error, nan if it gives none; for random heads, over examples and draws,
          nan for a single draw
        - low, high: for random heads, the smallest and the largest value of a draw
        - p: for random heads, the share of draws that are no better than the closed heads, which are counted
          among them: at least 1 / (draws + 1)

    Raises
    ------
    MissingError
        lm-evaluation-harness is not installed.
    ModelError
        Heads are not found.
    TypeError, ValueError
        `lm` has no model of transformers, `heads` are none or not those of the model, or `draws` is below 1.

    Examples
    --------
    >>> lm = HFLM(pretrained=model, tokenizer=tokenizer)
    >>> table = headspec.evaluate(lm, ["arc_easy"], headspec.top_heads(scores, 0.1), limit=500)
    """
    if find_spec("lm_eval") is None:
        raise MissingError("evaluate: lm-evaluation-harness is missing; `pip install lm_eval` installs it")
    harness: Any = import_module("lm_eval")
    if not hasattr(lm, "model"):
        raise TypeError(f"lm: got {type(lm).__name__}, expected lm_eval.models.huggingface.HFLM of a model")
    check_model(lm.model)
    if draws < 1:
        raise ValueError(f"draws: got {draws}, expected at least 1")
    gates = HeadGates(lm.model)
    closed = head_arrays.mask(heads, gates.exists)
    if not closed.any():
        raise ValueError("heads: got none, expected at least one head to close")
    if settings.get("task_manager") is None:  # which reads all tasks of the harness: once for all sets
        manager: Any = import_module("lm_eval.tasks").TaskManager
        settings["task_manager"] = manager(metadata=settings.get("metadata"))
    found: dict[str, list[dict[tuple[str, str], Found]]] = {}
    sets = [*_sets(closed, gates.exists, draws, seed)]
    for order, each in user_model.shown(sets, "sets of heads"):
        with gates.closed(each):
            results = _that_fit(
                lm, lambda: harness.simple_evaluate(model=lm, tasks=[*tasks], log_samples=False, **settings)
            )
        found.setdefault(order, []).append(_metrics(results))
    return _table(found, int(closed.sum()))


def _that_fit(lm: Any, results: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return the harness's results; where memory runs out, halve the batch size, also for later calls."""
    while True:
        try:
            return results()
        except MEMORY_ERRORS as error:
            size = getattr(lm, "batch_size_per_gpu", None)
            if not (isinstance(size, int) and size > 1 and halves(lm.model, error)):
                raise
        torch.cuda.empty_cache()  # now that the error holds no tensors
        lm.batch_size_per_gpu = size // 2
        log.info("out of memory: batches of %d examples from here", lm.batch_size_per_gpu)


def _sets(closed: Any, exists: Any, draws: int, seed: int) -> Iterator[tuple[str, Any]]:
    """Yield the order and the closed heads, bool (layers, heads), of each evaluation."""
    yield NONE, closed & False
    yield CLOSED, closed
    for draw in range(draws):
        rngs = [np.random.default_rng(derive(seed, order, draw)) for order in (RANDOM, SAME_LAYERS)]
        yield RANDOM, random_heads(exists, int(closed.sum()), rngs[0])
        yield SAME_LAYERS, random_by_layer(closed, exists, rngs[1])


def _metrics(results: dict[str, Any]) -> dict[tuple[str, str], Found]:
    """Return the metrics of each task, (task, metric), from what the harness returns."""
    found = {}
    for task, values in results["results"].items():
        better = results.get("higher_is_better", {}).get(task) or {}
        for key, value in values.items():
            name, _, used = key.partition(",")
            if not used or name.endswith("_stderr") or not isinstance(value, (int, float)):
                continue
            error = values.get(f"{name}_stderr,{used}")
            metric = name if used == "none" else key
            error = float(error) if isinstance(error, (int, float)) else np.nan
            found[task, metric] = Found(float(value), error, better.get(name) is not False)
    return found


def _table(found: dict[str, list[dict[tuple[str, str], Found]]], heads: int) -> pd.DataFrame:
    rows = []
    for task, metric in found[NONE][0]:
        single = found[CLOSED][0][task, metric]
        for order, every in found.items():
            several = [each[task, metric] for each in every]
            values = np.array([each.value for each in several])
            error = np.sqrt(np.mean(np.square([each.error for each in several])))
            row = {
                "task": task, "metric": metric, "order": order, "heads": 0 if order == NONE else heads,
                "value": values.mean(), "se": error,
            }  # fmt: skip
            if order in (RANDOM, SAME_LAYERS):
                spread = values.var(ddof=1) / len(values) if len(values) > 1 else np.nan
                worse = values <= single.value if single.higher else values >= single.value
                row |= {
                    "se": np.sqrt(error**2 + spread), "low": values.min(), "high": values.max(),
                    "p": (1 + worse.sum()) / (1 + len(values)),
                }  # fmt: skip
            rows.append(row)
    return pd.DataFrame(rows)
