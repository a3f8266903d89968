"""One measure of affinity: single-task models and training samples' tokens -> affinity of ordered pairs."""

from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.models.stage import ModelStage
from headspec.progress import stage
from headspec.seeds import derive
from headspec.similarity.affinity import SEED_AFFINITY, seed_affinity
from headspec.similarity.grad_tag import grad_tag
from headspec.similarity.lookahead import lookahead, lookahead_single
from headspec.similarity.single_runs import sampled, under_one_encoder

wildcards, params = snakemake.wildcards, snakemake.params
with stage(snakemake, "{measure} {model}/seed{seed}".format(**wildcards)):
    job = ModelStage(snakemake)
    examples = job.examples(params.tasks, snakemake.input.tokens)
    rows = sampled(examples, params.samples, job.seed)
    fitted, judged = [{task: each[start::2] for task, each in rows.items()} for start in (0, 1)]
    folders = [Path(path).parent for path in snakemake.input.models]
    singles = dict(zip(params.tasks, folders, strict=True))
    model = under_one_encoder(job.pretrained(pooling="first")[0], singles)
    if wildcards.measure == "grad-tag":
        values = grad_tag(model, examples, fitted, judged, job.device, derive(job.seed, "sketch"))
    elif wildcards.measure == "lookahead-single":
        values = lookahead_single(model, singles, examples, fitted, judged, job.device)
    else:
        values = lookahead(model, params.tasks, examples, fitted, judged, job.device)
    frame = seed_affinity(wildcards.measure, params.tasks, values)
    tables.write(snakemake.output[0], SEED_AFFINITY, frame, job.footer())
