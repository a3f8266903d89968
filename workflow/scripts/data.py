"""A task's labelled texts: source -> data tables."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables, tasks
from headspec.progress import log, stage
from headspec.settings import section

with stage(snakemake.log[0], f"data {snakemake.wildcards.task}"):
    name, params = snakemake.wildcards.task, snakemake.params
    parent = None
    if params.parent:
        splits = {Path(path).stem: tables.read(path) for path in snakemake.input}
        classes = tables.footer(snakemake.input[0])["classes"]
        parent = tasks.Prepared(splits["train"], splits["validation"], {}, classes)
    prepared = tasks.prepare(name, section(params.task), params.seed, parent)
    for split in ("train", "validation"):
        frame: pd.DataFrame = getattr(prepared, split)
        footer = tables.provenance(
            snakemake, classes=prepared.classes, counts=prepared.counts[split], source_version=params.version
        )
        tables.write(snakemake.output[split], tasks.DATA, frame, footer)
        log.info("%s: %s", split, ", ".join(f"{n} {what}" for what, n in prepared.counts[split].items()))
