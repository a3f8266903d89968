"""Voxels of the brain responses: stimuli and responses -> reliability, selection and ceiling."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.errors import DataError
from headspec.progress import log, stage
from headspec.similarity.brain import ceiling, responses
from headspec.similarity.brain.stimuli import units

params = snakemake.params
with stage(snakemake, "voxels"):
    stimuli = tables.read(snakemake.input.stimuli)
    by_subject = responses.read_responses(Path(snakemake.input.responses), stimuli["stimulus_id"].to_list())
    for subject, each in by_subject.items():
        log.info("%s: %d voxels; left out: %s", subject, len(each.voxels), each.left_out)
    if len(by_subject) == 1:
        log.info("one subject: no reliability, ceiling or interval")
    frame = ceiling.analyse(
        by_subject,
        units(stimuli),
        tables.read(snakemake.input.nuisance)["nuisance"].to_list(),
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
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output[0], ceiling.VOXELS, frame, footer)
