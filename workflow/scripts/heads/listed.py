"""Pruning of listed heads: model, importance and validation tokens -> predictions."""

import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.heads.masks import LISTED, listed_heads_mask, listed_masks
from headspec.heads.pruning import evaluated
from headspec.heads.ranking import importance_map
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "listed heads {model}/{mixture}/{method}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    table, model = tables.read(snakemake.input.importance), job.trained()
    masks = {}
    for name, heads in params.lists.items():
        key = f"models.{snakemake.wildcards.model}.heads.{name}"
        masks[name] = listed_heads_mask(heads, model.gates.exists, key)
    importances = {task: importance_map(table, task) for task in examples}
    planned = listed_masks(masks, importances, params.draws)
    every = [mask for list_masks in planned.values() for mask in list_masks]
    found = evaluated(model, examples, every, job.device, ablation=params.ablation)
    frames = []
    for task, task_examples in examples.items():
        values, _, texts = found[task]
        rows = zip(values, [None] * len(every) if texts is None else texts, strict=True)
        for name, list_masks in planned.items():
            for mask in list_masks:
                frame = task_examples.predicted(task, *next(rows))
                frames.append(frame.assign(
                    heads=name, pruned=mask.pruned_for, draw=mask.draw, n_pruned=mask.closed.sum(),
                ))  # fmt: skip
    frame = pd.concat(frames, ignore_index=True).astype({"draw": "Int32"})
    tables.write(snakemake.output[0], LISTED, frame, job.footer())
