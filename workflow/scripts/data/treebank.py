"""Sentences for the roles of heads: treebank, else validation texts -> table treebank."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.atlas import Treebank
from headspec.data.sources import treebank
from headspec.progress import log, stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "treebank"):
    if params.treebank:
        frame, counts = treebank.read_treebank(Treebank.from_params(params.treebank))
    else:
        texts = {task: tables.read(path) for task, path in zip(params.tasks, snakemake.input, strict=True)}
        frame = treebank.from_texts(texts)
        counts = {"sentences": len(frame)}
    tables.write(snakemake.output[0], treebank.TREEBANK, frame, tables.provenance(snakemake, **counts))
    log.info("%s", ", ".join(f"{count} {name}" for name, count in counts.items()))
