"""Few-shot draws of a task, the same for every encoder: training table -> draws."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data.few_shot import DRAWS, few_shot, strata
from headspec.progress import stage

snakemake: Snakemake
task, params = snakemake.wildcards.task, snakemake.params
with stage(snakemake, f"few-shot {task}"):
    train = tables.read(snakemake.input[0])
    labels = strata(train, tables.footer(snakemake.input[0])["classes"])
    frame = few_shot(task, labels, params.samples, params.draws, params.seed)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], DRAWS, frame, footer)
