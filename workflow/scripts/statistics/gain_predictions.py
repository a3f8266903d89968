"""Predicted gains: measured gains, similarity and affinity -> predictions for tasks left out, and scores."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import pandas as pd

from headspec import tables
from headspec.progress import log, stage
from headspec.statistics.grouping.gains import features, measured_gains
from headspec.statistics.grouping.prediction import GAIN_PREDICTION_SCORES, GAIN_PREDICTIONS, predict

params, inputs = snakemake.params, snakemake.input
with stage(snakemake, "gain predictions"):
    sharing = tables.read(inputs.gains)
    similarity = tables.read(inputs.similarity) if inputs.similarity else None
    affinity = tables.read(inputs.affinity) if inputs.affinity else None
    found = []
    for model in params.models:
        gains = measured_gains(sharing, params.tasks, params.metrics, model)
        if gains.unlearnt:
            log.info(f"{model}: left out, at chance alone and in every pair: {', '.join(gains.unlearnt)}")
        measures = {} if similarity is None else features(similarity, affinity, params.tasks, model)
        found.append(predict(gains, measures, model, params.seed, params.confidence))
    footer = tables.provenance(snakemake)
    for path, schema, frames in zip(
        snakemake.output, (GAIN_PREDICTIONS, GAIN_PREDICTION_SCORES), zip(*found, strict=True), strict=True
    ):
        tables.write(path, schema, pd.concat(frames, ignore_index=True), footer)
