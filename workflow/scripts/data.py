"""A task's training texts: source, or training texts that pairs are made of -> data table."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np
import pandas as pd

from headspec import overlap, tables, tasks
from headspec.progress import log, stage
from headspec.settings import section

name, params = snakemake.wildcards.task, snakemake.params
with stage(snakemake.log[0], f"data {name}"):
    task = section(params.task)
    classes: list[str] | None = tasks.PAIR_CLASSES
    if task.pairs_of:
        split = tasks.pairs(name, "train", tables.read(snakemake.input.source[0]), params.seed)
    else:
        source = tasks.source(name, task, params.seed)
        split, classes = source.train, source.classes
    rows = overlap.rows(split.rows)
    seen = {other: np.isin(rows, np.array(keys, np.uint64)) for other, keys in params.leaks.items()}
    evaluated: dict[str, list[pd.DataFrame]] = {}
    for path in snakemake.input.others:
        table = overlap.keyed(tables.read(path), params.seed)
        evaluated.setdefault(tables.footer(path)["task"], []).append(table)
    seen |= {other: overlap.occurs(split.rows, pd.concat(parts)) for other, parts in evaluated.items()}
    frame, counts, leaks = tasks.train(name, task, split, params.seed, seen)
    footer = tables.provenance(
        snakemake,
        task=name,
        classes=classes,
        counts=counts,
        leaks=leaks,
        source_version=params.version,
    )
    tables.write(snakemake.output.train, tasks.DATA, frame, footer)
    log.info("%s", ", ".join(f"{n} {what}" for what, n in counts.items()))
    for other, n in leaks.items():
        log.info("left out: %d examples with texts on which %s is evaluated", n, other)
