"""Few-shot transfer of all encoders: scores of all fits -> tables transfer and transfer_summary."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import Run
from headspec.progress import stage
from headspec.statistics.transfer import TRANSFER, TRANSFER_SUMMARY, transfer_scores, transfer_summary

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "scores of few-shot transfer"):
    keys = ((Run(**run), task) for run in params.runs for task in params.tasks)
    frames = (tables.read(path) for path in snakemake.input)
    transferred = transfer_scores((run, task, frame) for (run, task), frame in zip(keys, frames, strict=True))
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.scores, TRANSFER, transferred, footer)
    frame = transfer_summary(transferred, params.mixtures, params.confidence)
    tables.write(snakemake.output.summary, TRANSFER_SUMMARY, frame, footer)
