"""Training texts of a task: its source, or the training table from which pairs are made -> data table."""

import numpy as np
import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.data import overlap, prepare, reading_report
from headspec.progress import log, stage
from headspec.tasks.keys import TaskKeys
from headspec.tasks.parts import Classes

snakemake: Snakemake
name, params = snakemake.wildcards.task, snakemake.params
with stage(snakemake, f"data {name}"):
    task = TaskKeys.from_params(params.task)
    classes: Classes = prepare.PAIR_CLASSES
    source = None
    if task.pairs_of:
        split = prepare.pair_split(name, "train", tables.read(snakemake.input.source[0]), params.seed)
    else:
        source = prepare.read_source(name, task, params.seed)
        split, classes = source.train, source.classes
        for line in reading_report.odd(name, task, source):
            log.warning("%s", line)
    rows = overlap.row_keys(split.rows)
    seen = {other: np.isin(rows, np.array(keys, np.uint64)) for other, keys in params.leaks.items()}
    evaluated: dict[str, list[pd.DataFrame]] = {}
    for path in snakemake.input.others:
        table = overlap.with_keys(tables.read(path), params.seed)
        evaluated.setdefault(tables.footer(path)["task"], []).append(table)
    seen |= {other: overlap.occurs(split.rows, pd.concat(frames)) for other, frames in evaluated.items()}
    frame, counts, leaks = prepare.train_table(name, task, split, params.seed, seen)
    footer = tables.provenance(
        snakemake, task=name, classes=classes, counts=counts, leaks=leaks, source_version=params.version
    )
    tables.write(snakemake.output.train, prepare.DATA, frame, footer)
    log.info("%s", reading_report.facts(name, task, {"train": counts}, source)[0])
    for other, n in leaks.items():
        log.info("left out: %d examples with texts that %s is evaluated on", n, other)
