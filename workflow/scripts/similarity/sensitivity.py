"""A measure over all weights: single-task models and training tokens -> values of pairs of tasks."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import plugins, tables
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.similarity.sensitivity import SingleRuns, sampled
from headspec.similarity.table import seed_table

snakemake: Snakemake
wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "{measure} {model}/seed{seed}".format(**wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    folders = [Path(path).parent for path in snakemake.input.models]
    runs = SingleRuns(
        dict(zip(params.tasks, folders, strict=True)),
        examples,
        sampled(examples, params.samples, job.seed),
        job.encoder,
        job.device,
        job.seed,
        Path(snakemake.output[0]).parent,
    )
    values = plugins.function(params.function)(runs)
    schema, frame = seed_table(wildcards.measure, params.tasks, values, params.directed)
    tables.write(snakemake.output[0], schema, frame, job.footer())
