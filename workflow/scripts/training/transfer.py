"""Few-shot transfer of an encoder to a task: tokens and draws -> scores of all fits."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.iat import Transfer
from headspec.config.sections.training import Training
from headspec.models.multitask import MultiTask
from headspec.models.saved import read_encoder
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training.checkpoint import resumable
from headspec.training.transfer import TRANSFERRED, Fitting, Target, transfer

snakemake: Snakemake
wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "transfer {model}/{mixture}/{method}/seed{seed} to {task}".format(**wildcards)):
    job = ModelStage(snakemake)
    task, output = wildcards.task, Path(snakemake.output[0])
    with resumable(job, output.with_suffix(".pt"), "metrics", "transfer") as checkpoint:
        inputs = snakemake.input
        classes = job.classes([task], [inputs.train])
        if inputs.model:
            model = MultiTask(*read_encoder(Path(inputs.model[0]).parent), classes)
        else:
            model = job.pretrained(classes)
        train, validation, draws = map(tables.read, (inputs.train, inputs.validation, inputs.draws))
        frame = transfer(
            model,
            Target(task, train, validation, draws, params.metrics),
            Fitting(
                Transfer.from_params(params.transfer),
                Training(**params.training),
                job.seed,
                job.device,
            ),
            checkpoint,
            job.microbatches,
        )
        tables.write(output, TRANSFERRED, frame, job.footer())
