"""What every head knows of the labels of a task: tables probed -> figure."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots.drawing.style import save
from headspec.plots.probes.heads import draw
from headspec.progress import stage

params, paths = snakemake.params, iter(snakemake.input)
with stage(snakemake, f"figure {params.figure}"):
    groups = {name: [tables.read(next(paths)) for _ in range(n)] for name, n in params.shown}
    save(draw(groups), snakemake.output, params.dpi, tables.record(snakemake))
