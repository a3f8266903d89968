"""Figure: similarity."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import similarity
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure similarity"):
    frame = tables.read(snakemake.input[0])
    figure = similarity.draw(frame[frame["model"] == snakemake.wildcards.model], params.tasks, params.labels)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
