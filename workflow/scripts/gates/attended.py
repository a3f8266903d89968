"""Where the kept heads attend most: model, gates, table treebank -> table attended."""

import torch
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.attended import ATTENDED, attended
from headspec.models import tokenization
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training.gated import Sets, last_kept

snakemake: Snakemake
wildcards, params, files = snakemake.wildcards, snakemake.params, snakemake.input
with stage(snakemake, f"attended {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    sets = Sets(params.tasks, wildcards.scope == "per_task")
    kept = last_kept(tables.read(files.gates), sets)[sets.index(wildcards.kept_for)]
    model = job.trained()
    model.gates.values = torch.from_numpy(kept).float().to(job.device.name)
    words = tokenization.job_tokenizer(snakemake)
    targets = job.examples(params.translations, files.targets)
    frame, counts = attended(model, words, tables.read(files.treebank), params.sentences, job.device, targets)
    tables.write(snakemake.output[0], ATTENDED, frame, job.footer(**counts))
