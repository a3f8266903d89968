"""Figure: encoding."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import encoding, save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake.log[0], "figure encoding"):
    seeds = {seed: tables.read(path) for seed, path in zip(params.seeds, snakemake.input, strict=True)}
    save(encoding.draw(seeds, params.tasks), snakemake.output, params.dpi)
