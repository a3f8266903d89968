"""Few-shot transfer of one encoder to one task: samples and validation set -> scores of every fit."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import devices, encoders, tables
from headspec.multitask import MultiTask, saved_encoder
from headspec.progress import stage
from headspec.settings import section
from headspec.training import Checkpoint, exclusive, fingerprint
from headspec.transfer import TRANSFERRED, transfer

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake.log[0], "transfer {model}/{mixture}/{method}/seed{seed} to {task}".format(**wildcards)):
    device = devices.prepare(params.precision, snakemake.threads, snakemake.resources.parts)
    task, seed, output = wildcards.task, int(wildcards.seed), Path(snakemake.output[0])
    settings = [params.metrics, params.transfer, params.training, device.precision, seed]
    with exclusive(output.with_suffix(".lock")):
        if snakemake.input.model:
            encoder, pooling = saved_encoder(Path(snakemake.input.model[0]).parent)
        else:
            encoder, pooling = encoders.load(section(params.model), f"models.{wildcards.model}")
        classes = {task: tables.footer(snakemake.input.train)["classes"]}
        mark = fingerprint([settings, params.model, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(output.with_suffix(".pt"), mark, snakemake.resources.checkpoint_seconds)
        frame = transfer(
            MultiTask(encoder, pooling, classes),
            task,
            tables.read(snakemake.input.train),
            tables.read(snakemake.input.validation),
            tables.read(snakemake.input.draws),
            params.metrics,
            section(params.transfer),
            section(params.training),
            seed,
            device,
            checkpoint,
            snakemake.resources.parts,
        )
        footer = tables.provenance(snakemake, device=device.name, precision=device.precision, seed=seed)
        tables.write(output, TRANSFERRED, frame, footer)
        checkpoint.remove()
