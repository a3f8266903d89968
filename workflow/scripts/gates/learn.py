"""Gates of a run that learn without a target number of heads: model and tokens -> state of training."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec.config.pruning_method import PruningMethod
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint, resumable
from headspec.training.loop import Setup
from headspec.training.pruned.gated import Sets
from headspec.training.pruned.kept_heads import fixed_layers
from headspec.training.pruned.pruned_run import Plan, learn, learning_steps, starting_model

snakemake: Snakemake
params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, f"learn {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    method = PruningMethod(label="", **params.method)
    examples = job.examples(params.tasks, paths)
    gates = Gates.from_params({"attention": [], **params.gates})
    training = Training.from_params(params.training)
    epochs, learning = learning_steps(examples, training, gates, method.start)
    training = training.model_copy(update={"epochs": epochs})
    output = Path(snakemake.output[0])
    setup = Setup(examples, training, job.seed, job.device, job.microbatches)
    with resumable(job, output.with_name("learning.pt"), "tasks", "method", "gates") as checkpoint:
        model = starting_model(job, method, job.classes(params.tasks, paths), params.trains == "all")
        sets = Sets(params.tasks, snakemake.wildcards.scope == "per_task")
        fixed = fixed_layers(model.gates, gates.attention)
        plan = Plan(method, gates, 0, sets, model.gates.exists, fixed, None, learning, job.seed)
        gating = plan.gating(None, None)
        state = parallel.run(job.gpus, output.parent, learn, model, setup, gating, checkpoint)
        Checkpoint(output, checkpoint.fingerprint, 0).save(state)
