"""Pruning of a run: model, importance and validation tokens -> metrics and predictions."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.heads.masks import masks
from headspec.heads.pruning import PREDICTIONS, PRUNING, evaluated, predictions_table, pruning_table
from headspec.heads.ranking import importance_map
from headspec.models.stage import ModelStage
from headspec.progress import log, stage
from headspec.statistics.chance import warnings

snakemake: Snakemake
params, pruning = snakemake.params, snakemake.params.pruning
with stage(snakemake, "prune {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    table = tables.read(snakemake.input.importance)
    importances = {task: importance_map(table, task) for task in examples}
    planned = masks(
        importances,
        fraction=pruning["fraction"],
        fractions=pruning["fractions"],
        heads=pruning["heads"],
        draws=pruning["draws"],
        bottom=pruning["bottom"],
        seed=job.seed,
    )
    found = evaluated(
        job.trained(),
        examples,
        planned,
        job.device,
        draw_examples=pruning["draw_examples"],
        probabilities=pruning["probabilities"],
        ablation=pruning["ablation"],
        seed=job.seed,
    )
    footer = job.footer()
    predicted = {task: answers.values for task, answers in found.items()}
    frame = pruning_table(planned, examples, predicted, params.metrics)
    tables.write(snakemake.output.pruning, PRUNING, frame, footer)
    frame = predictions_table(planned, examples, found)
    main = {task: names[0] for task, names in params.metrics.items()}
    for warning in warnings(frame[frame["pruned_for"] == "none"], main):
        log.warning("%s", warning)
    tables.write(snakemake.output.predictions, PREDICTIONS, frame, footer)
