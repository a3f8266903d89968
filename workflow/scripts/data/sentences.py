"""Sentences to compare models on: the user's text file, or validation tables -> sentences."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.data.sources import sentences
from headspec.progress import log, stage

params = snakemake.params
with stage(snakemake, "sentences"):
    if params.source:
        frame, counts = sentences.from_file(params.source, params.sentences, params.seed)
    else:
        validation = {Path(path).parent.name: tables.read(path) for path in snakemake.input}
        frame, counts = sentences.from_tasks(validation, params.sentences, params.seed)
    footer = tables.provenance(snakemake, counts=counts)
    tables.write(snakemake.output[0], sentences.SENTENCES, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
