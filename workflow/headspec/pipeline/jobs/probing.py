"""Tables, params and figures of the section `probes`."""

from functools import cache

from headspec.config.runs import NO_MIXTURE, PRETRAINED
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout

#: method in rows on an encoder with random weights
RANDOM = "random"
#: model, mixture, method and task
Group = tuple[str, str, str, str]


@cache
def _groups(layout: Layout) -> dict[Group, list[str]]:
    """Return the tables of each group of probed runs, one per seed; only one for pretrained encoders."""
    groups: dict[Group, list[str]] = {}
    study, result = layout.study, layout.result
    for run in study.probed:
        for task in (task for task in run.tasks if task in layout.probed_tasks):
            if study.models[run.model].weights == PRETRAINED:
                once = [result("probes", run.model, f"{task}.parquet")]
                groups.setdefault((run.model, NO_MIXTURE, PRETRAINED, task), once)
            drawn = [result("probes", run.model, f"seed{s}", f"{task}.parquet") for s in study.seeds]
            groups.setdefault((run.model, NO_MIXTURE, RANDOM, task), drawn)
            paths = groups.setdefault((run.model, run.mixture, run.method, task), [])
            paths.append(result("runs", run.path, f"probes/{task}.parquet"))
    return groups


def groups(layout: Layout) -> list[tuple[list[str], int]]:
    """Return every group of probed runs, with its number of tables."""
    return [([*group], len(paths)) for group, paths in _groups(layout).items()]


def tables(layout: Layout) -> list[str]:
    """Return the tables of all groups, in order."""
    return [path for paths in _groups(layout).values() for path in paths]


def metrics(layout: Layout) -> dict[str, list[str]]:
    """Return the metrics of the probed runs' tasks."""
    tasks = layout.study.in_order([task for run in layout.study.probed for task in run.tasks])
    return {task: layout.study.compared_metrics[task] for task in tasks}


def main_metrics(layout: Layout) -> dict[str, str]:
    """Return the main metric of each task of the probed runs."""
    return {task: every[0] for task, every in metrics(layout).items()}


# --- of a figure


def joint(job: Job) -> str | None:
    """Return the mixture with most tasks of the probed `tuned` runs that learn a job's task, or None."""
    asked = job.wildcards.model, "tuned", job.wildcards.task
    mixtures = [name for model, name, method, task in _groups(job.layout) if (model, method, task) == asked]
    return max(mixtures, key=lambda name: len(job.layout.study.tasks_by_mixture[name]), default=None)


def _shown(job: Job) -> dict[str, list[str]]:
    """Return the groups whose heads a figure shows: untrained, single-task, and the largest mixture."""
    shown = {}
    for name, mixture, method in [
        (PRETRAINED, NO_MIXTURE, PRETRAINED),
        (RANDOM, NO_MIXTURE, RANDOM),
        ("alone", job.wildcards.task, "single"),
        (joint(job), joint(job), "tuned"),
    ]:
        group = job.wildcards.model, str(mixture), method, job.wildcards.task
        if paths := _groups(job.layout).get(group):
            shown[str(name)] = paths
    return shown


def shown_tables(job: Job) -> list[str]:
    """Return the tables of the shown groups, in order."""
    return [path for paths in _shown(job).values() for path in paths]


def shown(job: Job) -> list[tuple[str, int]]:
    """Return the names of the shown groups, with their numbers of tables."""
    return [(name, len(paths)) for name, paths in _shown(job).items()]
