"""Figure: alpha-delta."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import alpha_delta
from headspec.plots.drawing.style import save
from headspec.progress import stage

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "figure alpha-delta"):
    table = tables.read(snakemake.input[0])
    table = table[(table["model"] == wildcards.model) & (table["mixture"] == wildcards.mixture)]
    save(alpha_delta.draw(table), snakemake.output, params.dpi, tables.record(snakemake))
