"""Kept heads by layer, and by kind of attention (Voita et al. 2019, figures 7 and 8)."""

import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from headspec.attention import SELF, Layers, as_array, existing, first_rows
from headspec.statistics.gates.overlap import SET_KEYS, last_step
from headspec.statistics.intervals import FEWEST, over_seeds_and_examples
from headspec.tables import FLOAT, INT, TEXT, Schema

KEPT_LAYERS = Schema(
    SET_KEYS | {"layer": INT, "n_seeds": INT, "kept": FLOAT, "kept_least": INT, "kept_most": INT},
    keys=9,
)  # fmt: skip
"""Table `kept_layers`: a row for each mixture, way, fraction, penalty, task and layer.
tables/kept_layers.parquet

kept: heads of the layer that are kept, mean over seeds
"""

KEPT_KINDS = Schema(
    SET_KEYS
    | {"kind": TEXT, "against": TEXT, "n_seeds": INT, "heads": FLOAT, "share": FLOAT, "share_low": FLOAT,
       "share_high": FLOAT, "depth": FLOAT, "depth_low": FLOAT, "depth_high": FLOAT},
    keys=10,
)  # fmt: skip
"""Table `kept_kinds`: a row for each mixture, way, fraction, penalty, task, kind and against.
tables/kept_kinds.parquet

kind: kind of attention whose heads can close
against: null, or a kind whose values are subtracted in every seed
heads: number of heads of these kinds that are kept, mean over seeds
share: share of the kind's heads that is kept, mean over seeds; no interval from one or two seeds, or where
    seeds do not differ
depth: mean layer of the kept heads less of all, mean over seeds; null if a seed keeps none
"""


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
    """Return the table `kept_kinds` from 'gates', for models with several kinds of attention.

    `closing` are the kinds whose heads can close, all if empty.
    """
    rows = []
    for key, set_rows in last_step(gates).groupby([*SET_KEYS], dropna=False, sort=False):
        by_seed = set_rows.set_index(["layer", "head"]).groupby("seed")["kept"]
        kept = np.stack([as_array(seed_rows) for _, seed_rows in by_seed])
        layers = models.get(str(key[0]), {SELF: kept.shape[1]})
        kinds = [kind for kind in layers if not closing or kind in {SELF, *closing}]
        names = dict(zip(SET_KEYS, key, strict=True))
        rows += [names | row for row in _rows(kept, layers, kinds, confidence)]
    return pd.DataFrame(rows, columns=list(KEPT_KINDS.columns))


def _rows(
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
        yield {"kind": kind, "against": None, "heads": heads} | _summary(values, confidence)
    for other, kind in itertools.combinations(by_kind, 2):
        difference = _summary(by_kind[kind] - by_kind[other], confidence)
        yield {"kind": kind, "against": other, "heads": heads} | difference


def _summary(values: np.ndarray, confidence: float) -> dict[str, Any]:
    """Means over seeds and Student's t intervals of `values` (seeds, share and depth)."""
    share, depth = values.mean(axis=0)
    bounds = np.full((2, 2), np.nan)
    if len(values) >= FEWEST:
        fixed = np.stack([values, values])  # no examples are drawn: seeds alone vary
        low, high, _ = over_seeds_and_examples(values, fixed, confidence)
        bounds = np.where(np.ptp(values, axis=0) > 0, [low, high], np.nan)
    ends = dict(zip(("share_low", "depth_low", "share_high", "depth_high"), bounds.ravel(), strict=True))
    return {"n_seeds": len(values), "share": share, "depth": depth} | ends
