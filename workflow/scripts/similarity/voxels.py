"""Voxels of the brain responses: stimuli, texts and responses -> nuisance, reliability and ceiling."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sources import locate
from headspec.errors import DataError
from headspec.progress import log, stage
from headspec.similarity.brain import encoding, responses
from headspec.similarity.brain.stimuli import NUISANCE, read_stimuli, regressors, units, word_counts

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "voxels"):
    stimuli = read_stimuli(str(params.source), params.regressors)
    frames = [tables.read(path) for path in snakemake.input.texts]
    texts = [frame[column].dropna() for frame in frames for column in ("text_a", "text_b")]
    counts = word_counts(text for column in texts for text in column)
    nuisance = list(regressors(stimuli, params.regressors, counts))
    frame = pd.DataFrame({"example": range(len(nuisance)), "nuisance": nuisance})
    footer = tables.provenance(snakemake, words=len(counts))
    tables.write(snakemake.output.nuisance, NUISANCE, frame, footer)
    by_subject = responses.read_responses(
        locate(str(params.responses), "brain.responses"), stimuli["stimulus_id"].to_list()
    )
    for subject, each in by_subject.items():
        log.info("%s: %d voxels; left out: %s", subject, len(each.voxels), each.left_out)
    if len(by_subject) == 1:
        log.info("one subject: no reliability, ceiling or interval")
    frame = encoding.analyse_voxels(
        by_subject,
        units(stimuli),
        nuisance,
        params.folds,
        params.voxels == "reliable",
        params.seed,
    )
    used = frame[frame["selected"]].groupby("subject")["voxel"].nunique()
    for subject in by_subject:
        log.info("%s: %d voxels selected in some fold", subject, used.get(subject, 0))
    if not used.sum():
        raise DataError(
            "brain.voxels: got 'reliable', but no voxel of any subject is reliable; expected 'all'"
        )
    tables.write(snakemake.output.voxels, encoding.VOXELS, frame, tables.provenance(snakemake))
