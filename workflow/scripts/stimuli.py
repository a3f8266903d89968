"""Stimuli of the brain experiment: the user's table -> text, passage and nuisance of each."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.brain import experiment, nuisance
from headspec.progress import log, stage
from headspec.study import Brain

params = snakemake.params
with stage(snakemake.log[0], "stimuli"):
    texts = (text for path in snakemake.input.texts for text in tables.read(path)["text_a"])
    frame = experiment.stimuli_table(Brain(**params.brain), nuisance.word_counts(texts))
    footer = tables.provenance(params.study, params.brain)
    tables.write(snakemake.output[0], "stimuli", frame, footer)
    log.info("%d stimuli, %d passages", len(frame), frame["passage"].nunique())
