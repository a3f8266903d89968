"""Model of a run without training: language model and prompts -> encoder and classifiers of answers."""

from pathlib import Path

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.sections.model import Model
from headspec.models.architectures import CONTINUES
from headspec.models.language import load_language_model
from headspec.models.pretrained import folders
from headspec.models.pretrained.checks import architecture, verify
from headspec.models.pretrained.folders import folder
from headspec.models.pretrained.from_pretrained import weights
from headspec.models.stage import PLACED, ModelStage
from headspec.progress import stage
from headspec.prompts.head import calibrate, prompted

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "prompted {model}/{mixture}/seed{seed}".format(**snakemake.wildcards)):
    job = ModelStage(snakemake)
    model, key = Model.from_params(params.model), f"models.{snakemake.wildcards.model}"
    path, where = folder(model, key, "weights"), f"{key}.source: '{model.source}'"
    verify(path, model, key)
    with folders.as_planned(params.version, model, key, "weights"):
        continues = architecture(path, model, key) == CONTINUES
        placed = PLACED if continues else {}
        answering = load_language_model(path, where, continues, **weights(model), **placed)
    footers = dict(zip(params.tasks, map(tables.footer, snakemake.input.tokens), strict=True))
    classes = {task: footer["classes"] for task, footer in footers.items()}
    answers = {task: footer.get("answers") for task, footer in footers.items()}
    joint = prompted(answering, answers, classes, where, job.tokenizer(classes))
    for task, footer in footers.items():
        if footer.get("content_free"):
            calibrate(joint, task, footer["content_free"], job.device)
    joint.save(Path(snakemake.output.classifiers).parent, job.reference(), snakemake)
