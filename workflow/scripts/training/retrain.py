"""Training of one run from a branch to its end, with IAT or LoRA: state and tokens -> model and history."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake


from headspec import tables
from headspec.config.stage_settings import section
from headspec.heads.ranking import importance_map
from headspec.models.multitask import MultiTask
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training import parallel
from headspec.training.checkpoint import Checkpoint, exclusive, fingerprint, read
from headspec.training.iat import Own, owned_heads, retrain
from headspec.training.loop import TRAINING
from headspec.training.lora import LoRA

params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, "train {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    settings = [params.tasks, params.model, params.training, params.variant, params.projections]
    settings += [job.device.precision, job.seed]

    table = tables.read(snakemake.input.importance)
    importances = {task: importance_map(table, task) for task in params.tasks}
    kind, alpha = params.variant["heads"], params.variant["alpha"]
    heads = owned_heads(importances, "top" if kind == "lora" else kind, alpha, job.seed)
    restriction = (
        LoRA(heads, params.projections, job.seed) if kind == "lora" else Own(heads, params.projections)
    )

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
            section(params.training),
            restriction,
            job.seed,
            job.device,
            read(snakemake.input.state),
            checkpoint,
            job.microbatches,
        )
        model.save(folder / "model")
        tables.write(snakemake.output.history, TRAINING, history, job.footer())
        checkpoint.remove()
