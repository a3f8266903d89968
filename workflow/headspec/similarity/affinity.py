"""Tables of affinity: how much one task, the source, would help another, the target, by single-task runs."""

from __future__ import annotations

from headspec.tables import FLOAT, TEXT, Schema

SEED_AFFINITY = Schema({"measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT}, keys=3)
"""Table `seed_affinity`: a row for each ordered pair of tasks.
similarity/{model}/seed{seed}/lookahead.parquet, similarity/{model}/seed{seed}/lookahead-single.parquet,
similarity/{model}/seed{seed}/grad-tag.parquet

measure: `lookahead`, `lookahead-single` or `grad-tag`
affinity: what the source does for the target; above 0 if it helps
"""
AFFINITY = Schema(
    {"model": TEXT, "measure": TEXT, "source": TEXT, "target": TEXT, "affinity": FLOAT,
     "between_seeds": FLOAT},
    keys=4,
)  # fmt: skip
"""Table `affinity`: a row for each model, directed measure and ordered pair of tasks.
tables/affinity.parquet

measure: `lookahead`, `lookahead-single` or `grad-tag`
affinity: what the source does for the target, mean over seeds; above 0 if it helps
"""
