"""Gates of a run that learn without a target number of heads: model and tokens -> state of training."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec.config.pruning_method import PruningMethod
from headspec.config.sections.gates import Gates
from headspec.config.sections.training import Training
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint, exclusive, fingerprint
from headspec.training.gated import Sets
from headspec.training.kept_heads import fixed_layers
from headspec.training.pruned_runs import Plan, learn, learning_steps, starting_model

params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, f"learn {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    method = PruningMethod(label="", **params.method)
    examples = job.examples(params.tasks, paths)
    gates, training = (
        Gates.from_params({"attention": [], **params.gates}),
        Training.from_params(params.training),
    )
    epochs, learning = learning_steps(examples, training, gates, method.start)
    training = training.model_copy(update={"epochs": epochs})
    output = Path(snakemake.output[0])
    with exclusive(output.parent / "training.lock"):
        model = starting_model(job, method, job.classes(params.tasks, paths), params.trains == "all")
        sets = Sets(params.tasks, snakemake.wildcards.scope == "per_task")
        fixed = fixed_layers(model.gates, gates.attention)
        plan = Plan(method, gates, 0, sets, model.gates.exists, fixed, None, learning, job.seed)
        settings = [params.tasks, params.model, params.training, params.method, params.gates, job.seed]
        identity = fingerprint([settings, job.device.precision, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(
            output.parent / "learning.pt", identity, snakemake.resources.checkpoint_seconds
        )
        state = parallel.run(
            job.gpus, output.parent, learn, model, examples, training, plan.gating(None, None), job.seed,
            job.device, checkpoint, job.microbatches,
        )  # fmt: skip
        Checkpoint(output, identity, 0).save(state)
        checkpoint.remove()
