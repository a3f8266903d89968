"""A further split or test set of a task: source -> data table."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data import prepare, splits
from headspec.progress import log, stage
from headspec.tasks.keys import TaskKeys

snakemake: Snakemake
wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, f"data {wildcards.task} {wildcards.name}"):
    task, classes = TaskKeys.from_params(params.task), tables.footer(snakemake.input.data)["classes"]
    if wildcards.section == "further":
        frame, counts = prepare.further_table(wildcards.task, task, wildcards.name, params.seed, classes)
    else:
        train = tables.read(snakemake.input.data)
        frame, counts = splits.read_unlabelled(wildcards.task, task, wildcards.name, train)
    footer = tables.provenance(
        snakemake, task=wildcards.task, classes=classes, counts=counts, source_version=params.version
    )
    schema = prepare.DATA if wildcards.section == "further" else prepare.UNLABELLED
    tables.write(snakemake.output[0], schema, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
