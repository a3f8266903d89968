"""Vocabulary of a described model: training tables of all tasks -> pieces."""

from importlib import metadata

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.models.vocabulary import VOCABULARY, pieces
from headspec.progress import log, stage

snakemake: Snakemake
model, params = snakemake.wildcards.model, snakemake.params
with stage(snakemake, f"vocabulary {model}"):
    frames = [tables.read(path) for path in snakemake.input]
    sides = [frame[side] for frame in frames for side in ("text_a", "label")]
    texts = dict.fromkeys(text for side in sides for text in side)
    size, languages = params.vocabulary["size"], params.vocabulary["languages"]
    frame = pieces(texts, size, languages, f"models.{model}.transformer.vocabulary")
    log.info("%d tokens of %d distinct texts, %d of them of languages", size, len(texts), len(languages))
    footer = tables.provenance(snakemake, texts=len(texts), sentencepiece=metadata.version("sentencepiece"))
    tables.write(snakemake.output[0], VOCABULARY, frame, footer)
