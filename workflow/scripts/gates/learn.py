"""Gates of a run, learnt without a target number of heads: model and tokens -> state of training."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training.checkpoint import Checkpoint, resumable
from headspec.training.gated import Learning
from headspec.training.parallel import on_gpus
from headspec.training.pruned_run import learn, prepared

snakemake: Snakemake
with stage(snakemake, f"learn {snakemake.output[0]}"):
    job, output, params = ModelStage(snakemake), Path(snakemake.output[0]), snakemake.params
    gates = Gates.from_params(params.gates)
    training = Training(**params.training)
    with resumable(job, output.with_name("learning.pt"), "tasks", "method", "gates") as checkpoint:
        model, setup, plan = prepared(job, snakemake.input.tokens, gates, training)
        gating = plan.gating(None, None)
        assert isinstance(gating, Learning)
        state = on_gpus(job.gpus, output.parent, learn)(model, setup, gating, checkpoint)
        Checkpoint(output, checkpoint.fingerprint, 0, job.record).save(state)
