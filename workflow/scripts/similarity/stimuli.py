"""Stimuli of the brain experiment: the user's table -> id, text and passage of each."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.progress import log, stage
from headspec.similarity.brain import stimuli

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "stimuli"):
    frame = stimuli.read_stimuli(str(params.source))
    frame = frame.assign(example=range(len(frame)))
    tables.write(snakemake.output[0], stimuli.STIMULI, frame, tables.provenance(snakemake))
    log.info("%d stimuli, %d passages", len(frame), frame["passage"].nunique())
