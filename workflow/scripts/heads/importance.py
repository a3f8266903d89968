"""Head importance of a run: model and tokens of training samples -> table importance."""

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.heads.importance import IMPORTANCE, importance
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.seeds import derive

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "importance {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    rng = np.random.default_rng(derive(job.seed, "importance samples"))
    frame = importance(job.trained(), examples, params.samples, rng, job.device)
    tables.write(snakemake.output[0], IMPORTANCE, frame, job.footer())
