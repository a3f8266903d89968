"""Kept heads: their gates, numbers by layer and kind of attention, and overlap of seeds and tasks."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from headspec.config.runs import PrunedRun
from headspec.config.values import MEAN
from headspec.head_arrays import SELF, Layers, as_array, existing, first_rows
from headspec.seeds import derive
from headspec.statistics.intervals import FEWEST, over_seeds_and_examples
from headspec.statistics.resampling import holm
from headspec.tables import FLAG, FLOAT, INT, TEXT, Schema

#: columns for the number of heads kept
NUMBERS = ("fraction", "penalty")
#: key columns of tables on a number of heads over seeds, and on one of its sets of gates
NUMBER_KEYS = dict.fromkeys(("model", "mixture", "method", "scope", "way"), TEXT) | dict.fromkeys(
    NUMBERS, FLOAT
)
SET_KEYS = NUMBER_KEYS | {"task": TEXT}

GATES = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "seed": INT, "way": TEXT, "scope": TEXT,
     "fraction": FLOAT, "penalty": FLOAT, "task": TEXT, "step": INT, "layer": INT, "head": INT,
     "open_probability": FLOAT, "gate": FLOAT, "kept": FLAG},
    keys=12,
)  # fmt: skip
OVERLAP = Schema(
    NUMBER_KEYS
    | {"what": TEXT, "within": TEXT, "a": TEXT, "b": TEXT, "jaccard": FLOAT, "jaccard_by_layer": FLOAT,
       "correlation": FLOAT, "correlation_by_layer": FLOAT, "p_value": FLOAT, "p_holm": FLOAT},
    keys=11,
    about={
        "mixture": "null for tasks trained alone, which are compared over mixtures",
        "what": "`seeds` or `tasks`, whose kept heads are compared",
        "within": "of `seeds` the task (`all` for a shared set), of `tasks` the seed",
        "a": "the two seeds or tasks, or `mean`",
        "b": "the two seeds or tasks, or `mean`",
        "jaccard": "Jaccard index of the kept heads; null where neither keeps any, which does not count in "
            "the mean",
        "jaccard_by_layer": "its mean with heads permuted within layers",
        "correlation": "of the gates, or of what is kept where none learn",
        "correlation_by_layer": "its mean with heads permuted",
    },
)  # fmt: skip

#: scope: its earlier name, which seeds the draws, so that these do not change
DRAWN_AS = {"shared": "shared", "per_task": "own"}
#: key that does not seed the draws, so that they are the same in studies with other penalties
UNNAMED = ("penalty", None)
Bools = NDArray[np.bool_]


class Kept(NamedTuple):
    """A set of kept heads."""

    name: str  # the seed or task that is compared
    kept: Bools  # (layers, heads), False where there is no head
    gate: NDArray[np.float64]  # (layers, heads), nan where there is no head


def gates_table(tables: Mapping[PrunedRun, pd.DataFrame]) -> pd.DataFrame:
    """Return the table `gates`: the gates of all runs."""
    frames = []
    for pruned, frame in tables.items():
        run = {name: getattr(pruned.run, name) for name in ("model", "mixture", "method", "seed")}
        frames.append(frame.assign(**run, way=pruned.pruning_method, scope=pruned.scope, **numbers(pruned)))
    return pd.concat(frames, ignore_index=True).astype(dict.fromkeys(NUMBERS, float))[list(GATES.columns)]


def last_step(gates: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of the table `gates` at the last step of each set of gates."""
    steps = gates.groupby([*SET_KEYS, "seed"], dropna=False)["step"]
    return gates[gates["step"] == steps.transform("max")]


def numbers(pruned: PrunedRun) -> dict[str, float | None]:
    """Return the columns `NUMBERS`, which say how many heads a run keeps."""
    return {name: getattr(pruned, name) for name in NUMBERS}


def overlap(tables: Mapping[PrunedRun, pd.DataFrame], draws: int, seed: int) -> pd.DataFrame:
    """Return the table `overlap` from 'gates_of_run' of every pruned run that does not keep all heads.

    The heads of each compared seed (or task) are permuted within their layers, independently; all pairs use
    the same permutations, so that the p of their mean accounts for shared sets. Sets of one seed for several
    tasks, or of one task for several seeds, may be similar, and are permuted in the same way. p_holm is
    corrected over the means of the same model, mixture, method, scope and kind of comparison.
    """
    groups: dict[tuple[Any, ...], dict[str, list[Kept]]] = {}
    for pruned, frame in tables.items():
        run = pruned.run
        key = (
            run.model,
            run.mixture,
            run.method,
            pruned.scope,
            pruned.pruning_method,
            *numbers(pruned).values(),
        )
        apart = (run.model, None, *key[2:])
        last = frame[frame["step"] == frame["step"].max()]
        for task, set_rows in last.groupby("task", dropna=False):
            name = "all" if pd.isna(task) else str(task)
            by_head = set_rows.set_index(["layer", "head"])
            values = as_array(by_head["kept"]) == 1, as_array(by_head["gate"])
            seeds = groups.setdefault((*key, "seeds"), {}).setdefault(name, [])
            seeds.append(Kept(str(run.seed), *values))
            if name != "all" or run.method == "single":
                tasks = groups.setdefault((*(key if name != "all" else apart), "tasks"), {})
                in_seed = tasks.setdefault(str(run.seed), [])
                in_seed.append(Kept(run.mixture if name == "all" else name, *values))
    rows = []
    for key, members in groups.items():
        named = [
            DRAWN_AS[str(part)] if name == "scope" else str(part)
            for name, part in zip(OVERLAP.columns, key, strict=False)
            if (name, part) != UNNAMED
        ]
        rng = np.random.default_rng(derive(seed, "overlap", *named))
        rows += [(*key, *row) for row in _pairs(members, draws, rng)]
    result = pd.DataFrame(rows, columns=list(OVERLAP.columns)[:-1]).astype({"penalty": float})
    family = result.groupby(["model", "mixture", "method", "scope", "what"], dropna=False)
    return result.assign(p_holm=family["p_value"].transform(holm))


def _pairs(members: dict[str, list[Kept]], draws: int, rng: np.random.Generator) -> list[tuple[Any, ...]]:
    """Return rows for all pairs within each of `members`, and for their mean; none without pairs."""
    rows, nulls = [], []
    orders: dict[str, NDArray[np.int_]] = {}
    for within, sets in members.items():
        if len(sets) < 2:
            continue
        kept, gate = np.stack([each.kept for each in sets]), np.stack([each.gate for each in sets])
        exists = existing(gate[0])
        for each in sets:
            if each.name not in orders:
                orders[each.name] = within_layers(exists, draws, rng)
        order = np.stack([orders[each.name] for each in sets], axis=1)
        kept_null = np.take_along_axis(kept[None], order, axis=-1)
        gate_null = np.take_along_axis(gate[None], order, axis=-1).reshape(draws, len(sets), -1)
        gate_null, gate = (
            np.compress(exists.ravel(), each, axis=-1) for each in (gate_null, gate.reshape(len(sets), -1))
        )
        for i, j in itertools.combinations(range(len(sets)), 2):
            null = jaccard(kept_null[:, i], kept_null[:, j])
            if not np.isnan(null).any():
                nulls.append(null)
            rows.append(
                (within, sets[i].name, sets[j].name, float(jaccard(kept[i], kept[j])), null.mean(),
                 float(correlation(gate[i], gate[j])),
                 pd.Series(correlation(gate_null[:, i], gate_null[:, j])).mean(), np.nan)
            )  # fmt: skip
    if not rows:
        return []
    means = pd.DataFrame([row[3:7] for row in rows], dtype=float).mean().to_numpy()  # over pairs with a value
    reached = np.sum(np.mean(nulls, axis=0) >= means[0] - 1e-12) if nulls else np.nan
    return [*rows, (MEAN, MEAN, MEAN, *means, (1 + reached) / (1 + draws))]


def within_layers(exists: Bools, draws: int, rng: np.random.Generator) -> NDArray[np.int_]:
    """Return permutations of heads within layers, (draws, layers, heads): the head at each place.

    `exists` is (layers, heads); the heads of a layer come first, and places without a head do not change.
    """
    layers, heads = exists.shape
    order = rng.permuted(np.broadcast_to(np.arange(heads), (draws, layers, heads)), axis=-1)
    for layer in np.flatnonzero(~exists.all(axis=1)):
        last = ~exists[layer, order[:, layer]]
        order[:, layer] = np.take_along_axis(order[:, layer], last.argsort(axis=-1, kind="stable"), axis=-1)
    return order


def jaccard(a: Bools, b: Bools) -> NDArray[np.float64]:
    """Return heads in both sets (..., layers, heads) per head in either, (...); nan if both are empty."""
    both, either = (a & b).sum(axis=(-2, -1)), (a | b).sum(axis=(-2, -1))
    return np.where(either == 0, np.nan, both / np.maximum(either, 1))


def correlation(a: NDArray[np.float64], b: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return Pearson's r over heads, (...), of gates (..., heads); nan where one side is constant."""
    x, y = (v - v.mean(axis=-1, keepdims=True) for v in (a, b))
    size = np.sqrt((x**2).sum(axis=-1) * (y**2).sum(axis=-1))
    product = (x * y).sum(axis=-1)
    r: NDArray[np.float64] = np.divide(
        product, size, out=np.full(np.shape(product), np.nan), where=size > 1e-12
    )
    return r


KEPT_LAYERS = Schema(
    SET_KEYS | {"layer": INT, "n_seeds": INT, "kept": FLOAT, "kept_least": INT, "kept_most": INT},
    keys=9,
    about={
        "kept": "heads of the layer that are kept, mean over seeds",
    },
)  # fmt: skip

KEPT_KINDS = Schema(
    SET_KEYS
    | {"kind": TEXT, "against": TEXT, "n_seeds": INT, "heads": FLOAT, "share": FLOAT, "share_low": FLOAT,
       "share_high": FLOAT, "depth": FLOAT, "depth_low": FLOAT, "depth_high": FLOAT},
    keys=10,
    about={
        "kind": "kind of attention whose heads can close",
        "against": "null, or a kind whose values are subtracted in every seed",
        "heads": "number of heads of these kinds that are kept, mean over seeds",
        "share": "share of the kind's heads that is kept, mean over seeds; no interval from one or two "
            "seeds, or where seeds do not differ",
        "depth": "mean layer of the kept heads minus that of all, mean over seeds; null if a seed keeps none",
    },
)  # fmt: skip


def kept_layers(gates: pd.DataFrame) -> pd.DataFrame:
    """Return the table `kept_layers` from 'gates'."""
    keys = [*SET_KEYS, "layer"]
    per_layer = (
        last_step(gates)
        .groupby([*keys, "seed"], dropna=False)["kept"]
        .sum()
        .groupby(level=keys, dropna=False)
    )
    columns = {"n_seeds": "size", "kept": "mean", "kept_least": "min", "kept_most": "max"}
    return per_layer.agg(list(columns.values())).set_axis(list(columns), axis=1).reset_index()


def kept_kinds(
    gates: pd.DataFrame, models: Mapping[str, Layers], closing: Sequence[str], confidence: float
) -> pd.DataFrame:
    """Return the table `kept_kinds` from 'gates'.

    `models` has the layers by kind of the models with several kinds of attention; others have `SELF` alone.
    `closing` are the kinds whose heads can close, all if empty.
    """
    rows = []
    for key, set_rows in last_step(gates).groupby([*SET_KEYS], dropna=False, sort=False):
        by_seed = set_rows.set_index(["layer", "head"]).groupby("seed")["kept"]
        kept = np.stack([as_array(seed_rows) for _, seed_rows in by_seed])
        layers = models.get(str(key[0]), {SELF: kept.shape[1]})
        kinds = [kind for kind in layers if not closing or kind in {SELF, *closing}]
        names = dict(zip(SET_KEYS, key, strict=True))
        rows += [names | row for row in _kind_rows(kept, layers, kinds, confidence)]
    return pd.DataFrame(rows, columns=list(KEPT_KINDS.columns))


def _kind_rows(
    kept: np.ndarray, layers: Layers, kinds: Sequence[str], confidence: float
) -> Iterator[dict[str, Any]]:
    """Yield the rows of a set from `kept` (seeds, layers of all kinds, heads), nan where there is no head."""
    by_kind: dict[str, np.ndarray] = {}  # (seeds, share and depth)
    heads = 0.0
    for kind, first in first_rows(layers).items() if SELF not in layers else [(SELF, 0)]:
        if kind in kinds:
            kind_kept = kept[:, first : first + layers[kind]]
            by_layer, place = np.nansum(kind_kept, axis=2), np.arange(layers[kind])
            every = existing(kind_kept[0]).sum(axis=1)
            with np.errstate(invalid="ignore"):
                depth = by_layer @ place / by_layer.sum(axis=1) - every @ place / every.sum()
            by_kind[kind] = np.column_stack([np.nanmean(kind_kept, axis=(1, 2)), depth])
            heads += by_layer.sum() / len(kept)
    for kind, values in by_kind.items():
        yield {"kind": kind, "against": None, "heads": heads} | _kind_summary(values, confidence)
    for other, kind in itertools.combinations(by_kind, 2):
        difference = _kind_summary(by_kind[kind] - by_kind[other], confidence)
        yield {"kind": kind, "against": other, "heads": heads} | difference


def _kind_summary(values: np.ndarray, confidence: float) -> dict[str, Any]:
    """Return means over seeds and Student's t intervals of `values` (seeds, share and depth).

    An interval is nan with one or two seeds, and where seeds do not differ.
    """
    share, depth = values.mean(axis=0)
    bounds = np.full((2, 2), np.nan)
    if len(values) >= FEWEST:
        fixed = np.stack([values, values])  # no examples are drawn, only seeds vary
        low, high, _ = over_seeds_and_examples(values, fixed, confidence)
        bounds = np.where(np.ptp(values, axis=0) > 0, [low, high], np.nan)
    ends = dict(zip(("share_low", "depth_low", "share_high", "depth_high"), bounds.ravel(), strict=True))
    return {"n_seeds": len(values), "share": share, "depth": depth} | ends
