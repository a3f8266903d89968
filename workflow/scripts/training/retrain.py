"""End of a run, from a branch, as IAT or a control: state and tokens -> model and history."""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake


from headspec import tables
from headspec.config.sections.training import Training
from headspec.heads.ranking import importance_map
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint, exclusive, fingerprint, read
from headspec.training.iat import End, retrain
from headspec.training.loop import TRAINING
from headspec.training.variants.owned import owned_heads

params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, "train {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    settings = [params.tasks, params.model, params.training, params.variant, params.projections]
    settings += [job.device.precision, job.seed]

    table = tables.read(snakemake.input.importance)
    importances = {task: importance_map(table, task) for task in params.tasks}
    variant = params.variant
    heads = owned_heads(importances, variant["heads"], variant["alpha"], job.seed)
    module = import_module(f"headspec.training.variants.{variant.get('module', 'own')}")
    restriction = module.restriction(heads, params.projections, job.seed, variant)
    end = End(restriction, variant.get("dropout", True), variant.get("peak"))

    folder = Path(snakemake.output.history).parent
    with exclusive(folder / "training.lock"):
        encoder, pooling = job.pretrained()
        model = MultiTask(encoder, pooling, classes)
        identity = fingerprint([settings, params.version, params.code], snakemake.input)
        checkpoint = Checkpoint(folder / "checkpoint.pt", identity, snakemake.resources.checkpoint_seconds)
        history = parallel.run(
            job.gpus,
            folder,
            retrain,
            model,
            examples,
            Training.from_params(params.training),
            end,
            job.seed,
            job.device,
            read(snakemake.input.state),
            checkpoint,
            job.microbatches,
        )
        model.save(folder / "model")
        tables.write(snakemake.output.history, TRAINING, history, job.footer())
        checkpoint.remove()
