"""Sentences on which models are compared: the user's text file, or validation tables -> sentences."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.sources import sentences
from headspec.progress import log, stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "sentences"):
    if params.source:
        frame, counts = sentences.from_file(str(params.source), params.sentences, params.seed)
    else:
        validation = {Path(path).parent.name: tables.read(path) for path in snakemake.input}
        frame, counts = sentences.from_tasks(validation, params.sentences, params.seed)
    footer = tables.provenance(snakemake, counts=counts)
    tables.write(snakemake.output[0], sentences.SENTENCES, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
