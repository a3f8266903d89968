"""Numbers of heads that are kept, by layer and kind of attention, at every number and penalty."""

import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from headspec import tables
from headspec.config.runs import PrunedRun, Run
from headspec.statistics.gates.kept import KEPT_LAYERS, kept_layers
from headspec.statistics.gates.overlap import gates_table

KINDS = {"encoder": 2, "decoder": 1, "cross": 1}


def test_numbers_are_those_of_the_last_step_over_seeds(tmp_path):
    layer, head = (index.ravel() for index in np.indices((4, 3)))
    frame = pd.DataFrame({"task": None, "layer": layer, "head": head, "open_probability": 1.0, "gate": 1.0})
    cells = {}
    for seed in range(2):
        run = Run("m", "a", ("a",), "single", seed)
        for penalty, more in ((None, 0), (0.5, 1)):
            # layer 0 keeps one head, of seed 1 two; the others two, at the larger penalty one
            last = head < np.where(layer == 0, 1 + seed, 2 - more)
            steps = [frame.assign(step=0, kept=True), frame.assign(step=9, kept=last)]
            cells[PrunedRun(run, "l0", "shared", None, penalty)] = pd.concat(steps)
    found = kept_layers(gates_table(cells))
    tables.write(tmp_path / "layers.parquet", KEPT_LAYERS, found, {"attention": {"m": KINDS}})
    stored = pq.read_table(tmp_path / "layers.parquet").to_pandas()
    columns = ["attention", "layer", "n_seeds", "kept", "kept_least", "kept_most"]
    plain, strict = (
        stored[stored["penalty"].isna() == main][columns].values.tolist() for main in (True, False)
    )
    assert {tuple(row) for row in plain} == {
        ("encoder", 0, 2, 1.5, 1, 2), ("encoder", 1, 2, 2, 2, 2),
        ("decoder", 0, 2, 2, 2, 2), ("cross", 0, 2, 2, 2, 2),
    }  # fmt: skip
    assert {tuple(row) for row in strict} == {
        ("encoder", 0, 2, 1.5, 1, 2), ("encoder", 1, 2, 1, 1, 1),
        ("decoder", 0, 2, 1, 1, 1), ("cross", 0, 2, 1, 1, 1),
    }  # fmt: skip
    assert PrunedRun(run, "l0", "shared", None, 0.5).path.endswith("gates/l0/shared/open-0.5")
