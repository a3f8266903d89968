"""The probe: the user's text file, or validation tables -> table of sentences."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import probe, tables
from headspec.progress import log, stage

params = snakemake.params
with stage(snakemake.log[0], "probe"):
    if params.source:
        frame, counts = probe.from_file(params.source, params.sentences, params.seed)
    else:
        validation = {Path(path).parent.name: tables.read(path) for path in snakemake.input}
        frame, counts = probe.from_tasks(validation, params.sentences, params.seed)
    footer = tables.provenance(snakemake, counts=counts)
    tables.write(snakemake.output[0], probe.PROBE, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
