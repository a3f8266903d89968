"""One more split of a task, labelled or not: source -> data table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables, tasks
from headspec.progress import log, stage
from headspec.settings import section

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], f"data {wildcards.task} {wildcards.name}"):
    task, classes = section(params.task), tables.footer(snakemake.input.train)["classes"]
    if wildcards.kind == "further":
        frame, counts = tasks.further(wildcards.task, task, wildcards.name, params.seed, classes)
    else:
        train = tables.read(snakemake.input.train)
        frame, counts = tasks.unlabelled(wildcards.task, task, wildcards.name, train)
    footer = tables.provenance(snakemake, classes=classes, counts=counts, source_version=params.version)
    schema = tasks.DATA if wildcards.kind == "further" else tasks.UNLABELLED
    tables.write(snakemake.output[0], schema, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
