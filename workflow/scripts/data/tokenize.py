"""Tokens of a task for a model: data tables -> tables of tokens."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.model import Model
from headspec.errors import DataError
from headspec.models.architectures import WRITES
from headspec.models.pretrained import checks
from headspec.models.pretrained.checks import architecture
from headspec.models.pretrained.config_json import is_described
from headspec.models.pretrained.folders import folder
from headspec.models.tokenization import encode, job_tokenizer, kinds_of_attention, schema
from headspec.progress import log, stage
from headspec.tasks.tokens import encoding, signatures

snakemake: Snakemake
with stage(snakemake, f"tokenize {snakemake.wildcards.model} {snakemake.wildcards.task}"):
    params = snakemake.params
    model = Model.from_params(params.model)
    key = f"models.{snakemake.wildcards.model}"
    family = WRITES
    if not is_described(model):
        family = architecture(folder(model, key), model, key)  # planning cannot check hub models
    checks.check_sizes(model, key)
    tokenizer = job_tokenizer(snakemake)
    kinds = kinds_of_attention(model, key)
    attention = {"attention": {snakemake.wildcards.model: kinds}} if kinds else {}
    for source, target in zip(snakemake.input.texts, snakemake.output, strict=True):
        classes = tables.footer(source)["classes"]
        where = f"tasks.{snakemake.wildcards.task}"
        classes = encoding(classes).completed(tokenizer, classes, model.max_length, where, family)
        try:
            frame, truncated = encode(tokenizer, tables.read(source), model.max_length, classes)
        except DataError as error:
            raise DataError(f"{where}.text_a: {source}: {error}") from None
        footer = tables.provenance(snakemake, classes=classes, truncated=truncated, **attention)
        tables.write(target, schema(encoding(classes).columns), frame, footer)
        tokens = frame["input_ids"].str.len()
        log.info(
            "%d examples, %.1f tokens on average, %d truncated to %d",
            len(frame),
            tokens.mean(),
            truncated,
            model.max_length,
        )
    if counted := signatures([classes]):
        log.info("metrics of texts by sacrebleu: %s", counted)
