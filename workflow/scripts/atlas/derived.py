"""A measure of heads from a module of its own: another table of heads -> table of heads."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.atlas.sample import HEAD_FOLDS
from headspec.progress import stage

name = snakemake.wildcards.measure
measure = import_module(f"headspec.atlas.{name}").measure
with stage(snakemake, f"measure {snakemake.output[0]}"):
    frame = measure(tables.read(snakemake.input[0])).assign(measure=name)
    tables.write(snakemake.output[0], HEAD_FOLDS, frame, tables.provenance(snakemake))
