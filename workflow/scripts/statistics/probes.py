"""What single heads know of labels: tables probed of all runs -> tables probes and probe_changes."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.progress import stage
from headspec.statistics.probes import PROBE_CHANGES, PROBES, changes, probes

snakemake: Snakemake
params, paths = snakemake.params, iter(snakemake.input)
with stage(snakemake, "probes"):
    groups = {tuple(group): [tables.read(next(paths)) for _ in range(n)] for group, n in params.groups}
    footer = tables.provenance(snakemake)
    settings = {**params.resampling, "seed": params.seed}
    tables.write(snakemake.output.probes, PROBES, probes(groups, **settings), footer)
    tables.write(snakemake.output.changes, PROBE_CHANGES, changes(groups, **settings), footer)
