"""A measure of heads with its own function: another table of heads -> table of heads."""

from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.atlas.sample import HEAD_FOLDS
from headspec.progress import stage

snakemake: Snakemake
name = snakemake.wildcards.measure
measure = plugins.function(snakemake.params.function)
with stage(snakemake, f"measure {snakemake.output[0]}"):
    frame = measure(tables.read(snakemake.input[0])).assign(measure=name)
    tables.write(snakemake.output[0], HEAD_FOLDS, frame, tables.provenance(snakemake))
