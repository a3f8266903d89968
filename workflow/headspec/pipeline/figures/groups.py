"""Which figures a study has: the values of their wildcards, none for a figure without wildcards."""

import itertools
from collections.abc import Iterable

from headspec.config.runs import Run
from headspec.pipeline.figures.figure import Group
from headspec.pipeline.jobs import probing
from headspec.pipeline.layout import Layout

#: maximum number of mixtures for which figures of single mixtures are made by default
DRAWN = 60


def once(wanted: bool) -> list[Group]:
    """Return the group of a figure without wildcards if it is wanted."""
    return [()] * wanted


def models(layout: Layout, wanted: bool = True) -> list[Group]:
    """Return the models, if their figure is wanted."""
    return [(model,) for model in layout.study.models if wanted]


def few(layout: Layout) -> bool:
    """Return whether the study has few enough mixtures for figures of single mixtures."""
    return len(layout.study.mixture_tasks) <= DRAWN


def few_mixed(layout: Layout) -> bool:
    """Return whether heads are pruned, and the study has few enough mixtures."""
    return few(layout) and bool(layout.mixed)


def _tasks_by_run(runs: Iterable[Run]) -> dict[Group, tuple[str, ...]]:
    """Return the tasks of runs by model, mixture and method."""
    return {(run.model, run.mixture, run.method): run.tasks for run in runs}


def mixed(layout: Layout) -> Iterable[Group]:
    """Return the runs of several tasks, if there are few enough mixtures."""
    return _tasks_by_run(layout.mixed if few(layout) else [])


def models_if_mixed(layout: Layout) -> list[Group]:
    """Return the models if heads are pruned, of few enough mixtures."""
    return models(layout, few_mixed(layout))


def compared_models(layout: Layout) -> list[Group]:
    """Return a single group if there are several models and a mixture of three tasks."""
    return once(few_mixed(layout) and len(layout.study.models) > 1 and bool(layout.mixtures_of_three))


def iat(layout: Layout, wanted: bool = True) -> Iterable[Group]:
    """Return model and mixture of the section `iat`."""
    return itertools.product(layout.study.models, layout.study.iat.mixtures if wanted else ())


def swept(layout: Layout) -> Iterable[Group]:
    """Return the groups of IAT if it has several alphas or deltas."""
    study = layout.study
    points = [v for v in study.variants.values() if (v.retraining, v.base) == ("top", study.plain_method)]
    return iat(layout, len(points) > 1)


def atlas(layout: Layout) -> Iterable[Group]:
    """Return the runs in the atlas."""
    return _tasks_by_run(layout.atlas_runs)


def several_tasks(layout: Layout) -> list[Group]:
    """Return the runs in the atlas with several tasks."""
    return [group for group, tasks in _tasks_by_run(layout.atlas_runs).items() if len(tasks) > 1]


def before_and_after(layout: Layout) -> list[Group]:
    """Return the runs in the atlas that follow another."""
    runs = _tasks_by_run(layout.atlas_runs)
    return [(*of, method) for *of, method in runs if (*of, layout.before.get(method)) in runs]


def gates(layout: Layout, wanted: bool = True) -> Iterable[Group]:
    """Return the runs that gates prune."""
    return _tasks_by_run(cell.run for cell in layout.study.pruned_runs if wanted)


def overlapping(layout: Layout) -> list[Group]:
    """Return the models if they have several sets of heads."""
    study = layout.study
    own = any(cell.scope == "per_task" for cell in study.pruned_runs)
    alone = {cell.run.mixture for cell in study.pruned_runs if cell.run.method == "single"}
    return models(layout, len(study.seeds) > 1 or own or len(alone) > 1)


def probed(layout: Layout) -> Iterable[Group]:
    """Return model and task of all probes."""
    return dict.fromkeys((model, task) for (model, _, _, task), _ in probing.groups(layout))
