"""Affinity of tasks: tables of all measures, models and seeds -> table of means over seeds."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables
from headspec.progress import stage
from headspec.similarity.affinity import AFFINITY, affinity

params = snakemake.params
with stage(snakemake, "affinities"):
    found = list(map(tables.read, snakemake.input))  # by measure, model and seed
    each, runs = len(params.seeds), len(params.models) * len(params.seeds)
    frames = [
        affinity(model, found[start : start + each])
        for first in range(0, len(found), runs)
        for model, start in zip(params.models, range(first, first + runs, each), strict=True)
    ]
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], AFFINITY, pd.concat(frames, ignore_index=True), footer)
