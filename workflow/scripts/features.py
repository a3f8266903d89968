"""Vectors of a task's training set by the unchanged encoder, from which frozen training learns."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import devices, encoders, tables
from headspec.batching import Examples
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.representations import REPRESENTATIONS, features
from headspec.settings import section

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "features {model}/{task}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    encoder, pooling = encoders.load(section(params.model), f"models.{wildcards.model}")
    examples = Examples(tables.read(snakemake.input[0]))
    frame = features(MultiTask(encoder, pooling, {}), wildcards.task, examples, device)
    footer = tables.provenance(snakemake, device=device.name, precision=device.precision)
    tables.write(snakemake.output[0], REPRESENTATIONS, frame, footer)
