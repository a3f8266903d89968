"""Number of heads kept in each layer."""

from __future__ import annotations

import pandas as pd

from headspec.statistics.gates.overlap import NUMBERS
from headspec.tables import FLOAT, INT, TEXT, Schema

KEPT_LAYERS = Schema(
    {"model": TEXT, "mixture": TEXT, "method": TEXT, "scope": TEXT, "way": TEXT, "fraction": FLOAT,
     "penalty": FLOAT, "task": TEXT, "layer": INT, "n_seeds": INT, "kept": FLOAT, "kept_least": INT,
     "kept_most": INT},
    keys=9,
)  # fmt: skip
"""Table `kept_layers`: a row for each mixture, way, fraction, penalty, task and layer.
tables/kept_layers.parquet

kept: heads of the layer that are kept, mean over seeds
"""


def kept_layers(gates: pd.DataFrame) -> pd.DataFrame:
    """Return the table `kept_layers` from 'gates'."""
    group = ["model", "mixture", "method", "scope", "way", *NUMBERS, "task"]
    last = gates[gates["step"] == gates.groupby([*group, "seed"], dropna=False)["step"].transform("max")]
    per_seed = last.groupby([*group, "layer", "seed"], dropna=False)["kept"].sum()
    per_layer = per_seed.groupby(level=[*group, "layer"], dropna=False)
    columns = {"n_seeds": "size", "kept": "mean", "kept_least": "min", "kept_most": "max"}
    return per_layer.agg(list(columns.values())).set_axis(list(columns), axis=1).reset_index()
