"""Figure: brain encoding."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.plots import brain_encoding
from headspec.plots.drawing.style import save
from headspec.progress import stage

params = snakemake.params
with stage(snakemake, "figure brain encoding"):
    scores, summaries = (
        {seed: tables.read(path) for seed, path in zip(params.seeds, paths, strict=True)}
        for paths in (snakemake.input.encoding, snakemake.input.summary)
    )
    save(
        brain_encoding.draw(scores, summaries, params.tasks),
        snakemake.output,
        params.dpi,
        tables.record(snakemake),
    )
