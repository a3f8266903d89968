"""Few-shot samples of a task, the same for every encoder: training texts -> draws of them."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables
from headspec.draws import few_shot
from headspec.progress import stage

task, params = snakemake.wildcards.task, snakemake.params
with stage(snakemake.log[0], f"draws of {task}"):
    train = tables.read(snakemake.input[0])
    scores = tables.footer(snakemake.input[0])["classes"] is None
    strata = pd.Series("", index=train.index) if scores else train["label"]
    frame = few_shot(task, strata, params.samples, params.draws, params.seed)
    footer = tables.provenance(params.study, [params.samples, params.draws, params.seed])
    tables.write(snakemake.output[0], "draws", frame, footer)
