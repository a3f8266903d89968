"""Snakemake on a tiny study that has every stage: each is made, and none is left."""

import re

import pyarrow.parquet as pq

from headspec.pipeline import outputs
from support.running.every_stage import TARGETS

#: tables that stay empty here, or are of stages that this study lacks
LACKING = {"vocabulary", "listed", "head_lists", "areas"}


def test_every_other_table_has_rows(every_stage_finished):
    results = every_stage_finished.results
    made = {path.relative_to(results).as_posix(): path for path in results.rglob("*.parquet")}

    def rows(table: outputs.Table) -> int:
        patterns = [re.sub(r"{\w+}", "[^/]+", path) for path in table.paths]
        found = [path for at, path in made.items() if any(re.fullmatch(p, at) for p in patterns)]
        return sum(pq.read_metadata(path).num_rows for path in found)

    assert {name for name, table in outputs.described().items() if not rows(table)} == LACKING


def test_nothing_is_left_to_do(every_stage_finished):
    assert every_stage_finished.plan(*TARGETS, "explorer").rules == {}
