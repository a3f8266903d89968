"""Prompts of a task for a model and seed: data tables -> tables of tokens."""

import numpy as np
from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.model import Model
from headspec.models.pretrained import checks
from headspec.models.pretrained.checks import architecture
from headspec.models.pretrained.folders import folder
from headspec.models.tokenization import job_tokenizer, schema
from headspec.progress import log, stage
from headspec.prompts.checks import check_model, check_scoring, check_type
from headspec.seeds import derive
from headspec.tasks.keys import TaskKeys
from headspec.tasks.kinds.texts.prompting import prompting
from headspec.tasks.kinds.texts.wording import Wording, demonstrations

snakemake: Snakemake
wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "prompts {model} {task} seed{seed}".format(**wildcards)):
    model, key = Model.from_params(params.model), f"models.{wildcards.model}"
    path = folder(model, key)
    architecture(path, model, key)  # planning cannot check hub models
    checks.check_sizes(model, key)
    check_model(path, model, key)
    task, task_key = TaskKeys.from_params(params.prompt), f"tasks.{wildcards.task}"
    check_type(path, model, key, task, task_key)
    train, tokenizer = tables.read(snakemake.input.train), job_tokenizer(snakemake)
    classes = tables.footer(snakemake.input.train)["classes"]
    rng = np.random.default_rng(derive(int(wildcards.seed), "demonstrations", wildcards.task))
    shown = demonstrations(train, task.shots, rng)
    asked = {**params.prompt.get("asked", {})}
    if "samples" in asked:  # which differ between seeds
        asked["seed"] = int(wildcards.seed)
    asking, wording = prompting(task.type), Wording.for_task(task, classes, asked)
    prompts = asking(tokenizer, asking.showing(wording, shown, classes), model.max_length, task_key)
    answers = prompts.answers(classes)
    content_free = prompts.content_free() if task.calibration else []
    if prompts.scored:
        check_scoring(path, model, key, task_key)
    more = {
        "classes": classes if answers else prompts.classes(classes, task.type),
        "answers": answers,
        "content_free": content_free,
        "demonstrations": shown["example"].tolist(),
    }
    unseen = {"train": train.drop(index=shown.index), "validation": tables.read(snakemake.input.validation)}
    for split, texts in unseen.items():
        frame, truncated = prompts.encode(texts, classes)
        footer = tables.provenance(snakemake, truncated=truncated, **more)
        tables.write(snakemake.output[split], schema(prompts.columns), frame, footer)
        log.info(
            "%s: %d prompts of %d examples, %.1f tokens on average, %d truncated to %d",
            *(split, len(frame), task.shots, frame["input_ids"].str.len().mean()),
            *(truncated, model.max_length),
        )
