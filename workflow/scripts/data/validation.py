"""Validation texts of a task: its source, or the validation table to make pairs from -> data table."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data import prepare, reading_report
from headspec.progress import log, stage
from headspec.tasks.keys import TaskKeys
from headspec.tasks.parts import Classes

snakemake: Snakemake
name, params = snakemake.wildcards.task, snakemake.params
with stage(snakemake, f"validation {name}"):
    task = TaskKeys.from_params(params.task)
    classes: Classes = prepare.PAIR_CLASSES
    source = None
    if task.pairs_of:
        split = prepare.pair_split(name, "validation", tables.read(snakemake.input.source[0]), params.seed)
    else:
        source = prepare.read_source(name, task, params.seed)
        split, classes = source.validation, source.classes
    frame, counts = prepare.validation_table(name, task, split, params.seed)
    footer = tables.provenance(
        snakemake, task=name, classes=classes, counts=counts, source_version=params.version
    )
    tables.write(snakemake.output[0], prepare.DATA, frame, footer)
    log.info("%s", reading_report.facts(name, task, {"validation": counts}, source)[0])
