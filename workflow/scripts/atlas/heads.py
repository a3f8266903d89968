"""Measures of all heads: fold tables and roles of all runs -> heads, their roles, agreement, differences."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.progress import stage
from headspec.statistics.atlas.measures import (
    AGREEMENT,
    HEADS,
    TASK_DIFFERENCES,
    agreement,
    head_values,
    task_differences,
)
from headspec.statistics.atlas.roles import HEAD_ROLES, one_role

snakemake: Snakemake
params, files = snakemake.params, snakemake.input
with stage(snakemake, "heads"):
    runs = [Run(**run) for run in params.runs]
    values, measured, compared, roles = [], [], [], []
    for i, (run, role_path) in enumerate(zip(runs, files.roles, strict=True)):
        folds = pd.concat([tables.read(path) for path in files.measures[i :: len(runs)]], ignore_index=True)
        values.append(head_values(run, folds, params.dissociation["confidence"]))
        measured.append((run, folds))
        compared.append((run, folds[folds["measure"].isin(params.compared)]))
        columns = pd.DataFrame(
            [{name: getattr(run, name) for name in ("model", "mixture", "method", "seed")}]
        )
        roles.append(columns.merge(one_role(tables.read(role_path)), how="cross"))
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.heads, HEADS, pd.concat(values), footer)
    tables.write(snakemake.output.roles, HEAD_ROLES, pd.concat(roles), footer)
    frame = agreement(compared, params.fraction, **params.dissociation, seed=params.seed)
    tables.write(snakemake.output.agreement, AGREEMENT, frame, footer)
    frame = task_differences(measured, **params.dissociation, seed=params.seed)
    tables.write(snakemake.output.differences, TASK_DIFFERENCES, frame, footer)
