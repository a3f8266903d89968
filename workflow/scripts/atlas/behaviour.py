"""What heads do: model, and texts of its tasks -> table of heads."""

import numpy as np
import pandas as pd
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.atlas.behaviours import answered, behaviour, texts_of
from headspec.atlas.sample import HEAD_FOLDS, measure_folds, sampled
from headspec.models import tokenization
from headspec.models.stage import ModelStage
from headspec.progress import stage

snakemake: Snakemake
params, name = snakemake.params, snakemake.wildcards.measure
with stage(snakemake, f"behaviour {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    model, tokenizer = job.trained(), tokenization.job_tokenizer(snakemake)
    model.to(job.device.name).eval()
    if not params.prompts:  # the same for all tasks
        shared = behaviour(name, model, tokenizer, params.sequences)
        maps = dict.fromkeys(examples, shared)
    else:
        maps = {}
        for task, path in zip(examples, snakemake.input.texts, strict=True):
            table, prompt = tables.read(path), params.prompts[task]
            pairs = {}
            if prompt is not None:
                classes = tables.footer(path)["classes"]
                pairs = {task: answered(table, task, prompt, classes)}
            given = params.sequences, texts_of(table, task), pairs, bool(prompt and prompt.get("chat"))
            maps[task] = behaviour(name, model, tokenizer, *given)
    frames = []
    for task, values in maps.items():
        n = len(sampled(task, len(examples[task]), params.examples))
        frames.append(measure_folds(task, name, np.broadcast_to(values, (n, *values.shape))))
    tables.write(snakemake.output[0], HEAD_FOLDS, pd.concat(frames), job.footer())
