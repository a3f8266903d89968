"""Passes of probes."""

from headspec.models.passes import Load, StageJob, stage


@stage({"prune": "probes.sentences"}, copies=3, also=("probe_pretrained", "probe_random"))
def probe(job: StageJob) -> list[Load]:
    task, sentences = job.wildcards["task"], job.study.probes.sentences
    return [Load("prune", task, min(sentences, n[task])) for n in (job.n_train, job.n_validation)]
