"""Tokens of unlabelled texts, sentences or stimuli, for a model."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.model import Model
from headspec.models import tokenization
from headspec.models.pretrained import checks
from headspec.models.pretrained.checks import architecture
from headspec.models.pretrained.folders import folder
from headspec.models.tokenization import TOKENS, job_tokenizer
from headspec.progress import log, stage
from headspec.tasks.kinds.texts.encoding import ENCODING

snakemake: Snakemake
with stage(snakemake, f"tokenize {snakemake.wildcards.model} {snakemake.wildcards.texts}"):
    params = snakemake.params
    model = Model.from_params(params.model)
    key = f"models.{snakemake.wildcards.model}"
    path = folder(model, key)
    architecture(path, model, key)  # planning cannot check hub models
    checks.check_sizes(model, key)
    texts = tables.read(snakemake.input[0])
    frame = texts[["example"]].assign(text_a=texts["text"], text_b=None, label="nan")
    encoded, truncated = ENCODING.encode(job_tokenizer(snakemake), frame, model.max_length, None)
    tokenization.check_not_empty(encoded["example"], encoded["input_ids"])
    footer = tables.provenance(snakemake, truncated=truncated)
    tables.write(snakemake.output[0], TOKENS, encoded, footer)
    log.info("%d texts, %d truncated to %d tokens", len(encoded), truncated, model.max_length)
