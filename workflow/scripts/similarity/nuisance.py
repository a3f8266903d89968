"""Nuisance regressors of the brain experiment, from the stimuli and the tasks' training texts."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables
from headspec.progress import stage
from headspec.similarity.brain import nuisance, stimuli

params = snakemake.params
with stage(snakemake, "nuisance"):
    frames = [tables.read(path) for path in snakemake.input.texts]
    texts = [frame[column].dropna() for frame in frames for column in ("text_a", "text_b")]
    counts = nuisance.word_counts(text for column in texts for text in column)
    values = nuisance.regressors(stimuli.read_stimuli(params.source, params.names), params.names, counts)
    frame = pd.DataFrame({"example": range(len(values)), "nuisance": list(values)})
    footer = tables.provenance(snakemake, words=len(counts))
    tables.write(snakemake.output[0], nuisance.NUISANCE, frame, footer)
