"""Tokens, for one model, of texts without labels: the probe, or stimuli."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import architectures, tables
from headspec.encoding import ENCODED, encode, tokenizer
from headspec.progress import log, stage
from headspec.settings import section

with stage(snakemake.log[0], f"encode {snakemake.wildcards.model} {snakemake.wildcards.texts}"):
    params = snakemake.params
    model = section(params.model)
    key = f"models.{snakemake.wildcards.model}"
    path = architectures.folder(model, key)
    architectures.architecture(path, model, key)  # hub models are new here
    architectures.check_length(path, model, key)
    texts = tables.read(snakemake.input[0])
    frame = texts[["example"]].assign(text_a=texts["text"], text_b=None, label="nan")
    encoded, truncated = encode(tokenizer(model, key), frame, model.max_length, classes=None)
    footer = tables.provenance(snakemake, truncated=truncated)
    tables.write(snakemake.output[0], ENCODED, encoded, footer)
    log.info("%d texts, %d truncated to %d tokens", len(encoded), truncated, model.max_length)
