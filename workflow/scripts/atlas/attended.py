"""Where the heads of a model attend most: model and table treebank -> table attended."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.attended import ATTENDED, attended
from headspec.models import tokenization
from headspec.models.stage import ModelStage
from headspec.progress import log, stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, f"attended {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    sentences = tables.read(snakemake.input.treebank)
    words = tokenization.job_tokenizer(snakemake)
    targets = job.examples(params.translations, snakemake.input.targets)
    frame, counts = attended(job.trained(), words, sentences, params.sentences, job.device, targets)
    tables.write(snakemake.output[0], ATTENDED, frame, job.footer(**counts))
    log.info(
        "%d sentences; left out: %d too long for the model, %d with words that have no tokens",
        *counts.values(),
    )
