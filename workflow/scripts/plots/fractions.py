"""Figure: fractions."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import fractions
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure fractions"):
    frames = {}
    for name, path in snakemake.input.items():
        frame = tables.read(path)
        frames[name] = frame[frame["model"] == snakemake.wildcards.model]
    figure = fractions.draw(**frames, mixtures=params.mixtures, main=params.fraction, method=params.method)
    save(figure, snakemake.output, params.dpi, tables.record(snakemake))
