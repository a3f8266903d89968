"""Importance and relevance of the heads of a run: model and validation tokens -> table of heads."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.relevance import relevance_measures
from headspec.atlas.sample import HEAD_FOLDS
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "relevance {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    frame = relevance_measures(job.trained(), examples, job.device, params.examples, params.rules)
    tables.write(snakemake.output[0], HEAD_FOLDS, frame, job.footer())
