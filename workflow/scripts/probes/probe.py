"""What the heads of a model know of a task's labels: model, tokens and texts -> table probed."""

from snakemake.iocontainers import Snakemake

from headspec import probes, tables
from headspec.models.stage import ModelStage
from headspec.probes import PROBED, cases, label_chances
from headspec.progress import log, stage
from headspec.tasks.kinds.words.units import word_task

snakemake: Snakemake
params, files, task = snakemake.params, snakemake.input, snakemake.wildcards.task
with stage(snakemake, f"probe {snakemake.output[0]}"):
    job = ModelStage(snakemake)
    classes = tables.footer(files.tokens[0])["classes"]
    labels, links = classes["labels"], word_task(classes["type"]).links
    tokens = [tables.read(path) for path in files.tokens]
    chances = label_chances(tokens[0], len(labels))
    train, test = (
        cases(task, split_tokens, tables.read(texts), params.sentences, chances, links)
        for split_tokens, texts in zip(tokens, files.texts, strict=True)
    )
    model = job.trained() if files.get("model") else job.pretrained({})
    if links:
        frame = probes.probe_attention(model, test, labels, job.device)
    else:
        frame = probes.probe_outputs(model, train, test, labels, job.device)
    tables.write(snakemake.output[0], PROBED, frame, job.footer(sentences=len(test.examples)))
    log.info("%d sentences, %d units", len(test.examples), len(test.label))
