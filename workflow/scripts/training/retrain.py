"""The end of a run from a branch, as IAT or a control: state and tokens -> model and history."""

from importlib import import_module
from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.training import Training
from headspec.heads.ranking import importance_map
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.training.checkpoint import read, resumable
from headspec.training.iat import End, owned_heads, retrain
from headspec.training.loop import TRAINING, Setup
from headspec.training.parallel import on_gpus
from headspec.training.trainable import adapt

snakemake: Snakemake
params, paths = snakemake.params, snakemake.input.tokens
with stage(snakemake, "train {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples, classes = job.examples(params.tasks, paths), job.classes(params.tasks, paths)
    setup = Setup(examples, Training(**params.training), job.seed, job.device, job.microbatches)
    table = tables.read(snakemake.input.importance)
    importances = {task: importance_map(table, task) for task in params.tasks}
    variant = params.variant
    if "ranking" in variant:
        ranked = zip(params.tasks, snakemake.input.rankings, strict=True)
        importances = {task: importance_map(tables.read(path), task, "value") for task, path in ranked}
    heads = owned_heads(importances, variant["heads"], variant["alpha"], job.seed)
    module = import_module(f"headspec.training.variants.{variant['module']}")
    restriction = module.RESTRICTION(heads, params.projections, job.seed, variant)
    end = End(restriction, variant.get("dropout", True), variant.get("peak"))

    folder = Path(snakemake.output.history).parent
    settings = ("tasks", "variant", "projections")
    with resumable(job, folder / "checkpoint.pt", *settings) as checkpoint:
        model, reference = job.pretrained(classes), None
        if params.trains == "adapters":
            reference = job.reference()
            adapt(model, setup.settings.lora.rank, setup.settings.lora.layers, job.seed, job.device)
        state = read(snakemake.input.state)
        history = on_gpus(job.gpus, folder, retrain)(model, setup, end, state, checkpoint)
        model.save(folder / "model", reference, snakemake)
        tables.write(snakemake.output.history, TRAINING, history, job.footer())
