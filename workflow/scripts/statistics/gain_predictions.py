"""Predicted gains: measured gains, similarity and affinity -> predictions for held-out tasks, and scores."""

import pandas as pd
import pyarrow.parquet as pq
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.values import SIZE
from headspec.progress import log, stage
from headspec.statistics.grouping.gains import features, measured_gains, sizes
from headspec.statistics.grouping.prediction import GAIN_PREDICTION_SCORES, GAIN_PREDICTIONS, predict

snakemake: Snakemake
params, inputs = snakemake.params, snakemake.input
with stage(snakemake, "gain predictions"):
    sharing = tables.read(inputs.gains)
    similarity = tables.read(inputs.similarity) if inputs.similarity else None
    affinity = tables.read(inputs.affinity) if inputs.affinity else None
    examples = [pq.read_metadata(path).num_rows for path in inputs.data]
    found = []
    for model in params.models:
        gains = measured_gains(sharing, params.tasks, params.metrics, model)
        if gains.unlearnt:
            log.info(f"{model}: left out, at chance alone and in every pair: {', '.join(gains.unlearnt)}")
        measures = {} if similarity is None else features(similarity, affinity, params.tasks, model)
        measures[SIZE] = sizes(examples)
        found.append(predict(gains, measures, model, params.seed, params.confidence))
    footer = tables.provenance(snakemake)
    for path, schema, frames in zip(
        snakemake.output, (GAIN_PREDICTIONS, GAIN_PREDICTION_SCORES), zip(*found, strict=True), strict=True
    ):
        tables.write(path, schema, pd.concat(frames, ignore_index=True), footer)
