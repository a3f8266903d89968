"""Head importance of one run: model and encoded training samples -> importance table."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

import numpy as np

from headspec import devices, tables
from headspec.batching import Examples
from headspec.importance import IMPORTANCE, importance
from headspec.multitask import MultiTask
from headspec.progress import stage
from headspec.seeds import derive

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "importance {model}/{mixture}/{method}/seed{seed}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    seed = int(wildcards.seed)
    model = MultiTask.load(Path(snakemake.input.model).parent)
    examples = {
        t: Examples(tables.read(p)) for t, p in zip(params.tasks, snakemake.input.encoded, strict=True)
    }
    rng = np.random.default_rng(derive(seed, "importance samples"))
    frame = importance(model, examples, params.samples, rng, device)
    footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
    tables.write(snakemake.output[0], IMPORTANCE, frame, footer)
