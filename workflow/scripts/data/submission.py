"""Prediction files for the test server: tables `submission` -> TSV files and their zip."""

from pathlib import Path

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data import submission
from headspec.progress import log, stage

snakemake: Snakemake
label = "submission {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)
with stage(snakemake, label):
    predictions = pd.concat([tables.read(path) for path in snakemake.input])
    classes: dict[str, list[str] | None] = {}
    for path in snakemake.input:
        classes |= tables.footer(path)["classes"]
    for warning in submission.warnings(predictions["file"].value_counts(sort=False).to_dict()):
        log.warning("%s", warning)
    if "WNLI" not in classes:
        log.info("WNLI gets its majority class, because no task fills it")
    folder = Path(snakemake.output.archive).parent
    submission.write(folder, predictions, classes, tables.job_record(snakemake))
