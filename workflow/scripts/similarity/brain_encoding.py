"""Brain encoding for a model and seed: vectors of stimuli and responses -> r of every voxel."""

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sources import locate
from headspec.progress import log, stage
from headspec.seeds import derive
from headspec.similarity.brain import folds, responses
from headspec.similarity.brain.encoding import BRAIN_ENCODING, BRAIN_ENCODING_SUMMARY, analyse_encoding
from headspec.similarity.brain.stimuli import units

snakemake: Snakemake
wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "brain encoding {model}/seed{seed}".format(**wildcards)):
    stimuli, nuisance = tables.read(snakemake.input.stimuli), tables.read(snakemake.input.nuisance)
    vectors = {
        str(task): np.stack(part.sort_values("example")["vector"].to_list())
        for task, part in tables.read(snakemake.input.vectors).groupby("task")
    }
    encoding, summary = analyse_encoding(
        vectors,
        responses.read_responses(
            locate(str(params.responses), "brain.responses"), stimuli["stimulus_id"].to_list()
        ),
        tables.read(snakemake.input.voxels),
        folds.splits(units(stimuli), nuisance["nuisance"].to_list(), params.folds),
        params.regression,
        derive(int(wildcards.seed), "encoding"),
    )
    for row in summary.itertuples():
        numbers = row.task, row.subject, row.r, row.n_voxels, row.p_value
        log.info("%s, %s: r %.3f over %d voxels, p %.4f", *numbers)
    footer = tables.provenance(snakemake, seed=int(wildcards.seed))
    tables.write(snakemake.output.encoding, BRAIN_ENCODING, encoding, footer)
    tables.write(snakemake.output.summary, BRAIN_ENCODING_SUMMARY, summary, footer)
