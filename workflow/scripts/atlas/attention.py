"""Attention statistics of a model: model and validation tokens -> statistics of each head."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.attention import attention_measures
from headspec.atlas.sample import HEAD_FOLDS
from headspec.models import tokenization
from headspec.models.stage import ModelStage
from headspec.models.word_tokens import separators
from headspec.progress import stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, f"attention {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    model = job.trained()
    special = separators(tokenization.job_tokenizer(snakemake), model.classes.values())
    frame = attention_measures(model, examples, params.examples, special, job.device)
    tables.write(snakemake.output[0], HEAD_FOLDS, frame, job.footer())
