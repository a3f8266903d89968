"""A task's tokens for one model: data tables -> encoded tables."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import architectures, tables
from headspec.encoding import ENCODED, encode, tokenizer
from headspec.progress import log, stage
from headspec.settings import section

with stage(snakemake.log[0], f"encode {snakemake.wildcards.model} {snakemake.wildcards.task}"):
    params = snakemake.params
    model = section(params.model)
    key = f"models.{snakemake.wildcards.model}"
    path = architectures.folder(model, key)
    architectures.architecture(path, model, key)  # hub models are new here
    architectures.check_length(path, model, key)
    own = tokenizer(model, key)
    for source, target in zip(snakemake.input, snakemake.output, strict=True):
        classes = tables.footer(source)["classes"]
        frame, truncated = encode(own, tables.read(source), model.max_length, classes)
        footer = tables.provenance(snakemake, classes=classes, truncated=truncated)
        tables.write(target, ENCODED, frame, footer)
        tokens = frame["input_ids"].str.len()
        log.info(
            "%d examples, %.1f tokens on average, %d truncated to %d",
            len(frame),
            tokens.mean(),
            truncated,
            model.max_length,
        )
