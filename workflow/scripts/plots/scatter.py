"""Figure: scatter."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import scatter
from headspec.plots.drawing.style import save
from headspec.progress import stage
from headspec.statistics.similarity.paired import paired

params = snakemake.params
with stage(snakemake, "figure scatter"):
    inputs = {name: tables.read(path) for name, path in snakemake.input.items()}
    pairs = paired(inputs["similarity"], inputs["combined"], params.paradigms, params.method)
    figure = scatter.draw(pairs, inputs["correlation"], snakemake.wildcards.measure, params.label)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
