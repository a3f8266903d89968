"""How many jobs a study is, in each stage."""

from __future__ import annotations

from headspec.runs import Run
from headspec.speed import PASSES
from headspec.study import Study

FIGURES = ("importance", "matrix", "curves")  # of each model, mixture and method


def jobs(study: Study) -> dict[str, int]:
    """Number of jobs in each stage of a study of which nothing is done yet."""
    runs = study.runs
    used = {task for run in runs for task in run.tasks}
    parents = {study.tasks[task].pairs_of for task in used} - {None}
    fixed = frozen_features(runs)
    drawn = {(run.model, run.mixture, run.method) for run in runs if run.method != "single"}
    found = {
        "data": len(used | parents),
        "encode": len(study.models) * len(used),
        **({"features": len(fixed)} if fixed else {}),
        **{stage: len(of_stage(runs, stage)) for stage in PASSES},
        "dissociation": 1,
        "reliability": 1,
        "figures": 2 + len(study.models) + len(FIGURES) * len(drawn),
    }
    if study.similarity.measures:
        found |= _jobs_of_similarity(study, found["figures"])
    return _with_iat(study, found) if "iat" in study.methods else found


def _with_iat(study: Study, found: dict[str, int]) -> dict[str, int]:
    """The jobs `found`, and those of the sections `iat` and `transfer`."""
    own, transfer, seeds = study.iat, study.transfer, len(study.seeds)
    models, mixtures = len(study.models), len(own.mixtures)
    groups = models * mixtures * seeds
    trained = {run.path for run in study.runs}
    branches = {(variant.base, variant.delta) for variant in study.variants if variant.heads}
    retrained = {variant.method for variant in study.variants if variant.heads}
    plain = [r for r in study.iat_runs if r.method not in retrained and r.path not in trained]
    further = sum(len(study.tasks[t].further) for t in {t for r in study.iat_runs for t in r.tasks})
    encoders = len(study.transfer_runs) * len(transfer.tasks)
    used = {task for run in study.runs for task in run.tasks}
    learnt = {*transfer.tasks} | {t for r in plain for t in r.tasks}
    read, known = ({study.tasks[t].pairs_of for t in tasks} - {None} | tasks for tasks in (learnt, used))
    swept = len({(v.alpha, v.delta) for v in study.variants if v.heads == "top"}) > 1
    more = {
        "data": len(read - known),
        "encode": models * len(learnt - used),
        "split": further,
        "encode_split": models * further,
        "train": len(plain),
        "branch": groups * len(branches),
        "retrain": groups * len(retrained),
        "evaluate": len(study.iat_runs),
        "importance": groups,
        "prune": groups,
        **dict.fromkeys(("iat_scores", "improvement", "iat_dissociation", "specialization"), bool(mixtures)),
        "draws": len(transfer.tasks),
        "transfer": encoders,
        "transfer_scores": bool(encoders),
        "figures": models * (mixtures * (2 + swept) + len(transfer.tasks)),
    }
    return found | {rule: found.get(rule, 0) + n for rule, n in more.items() if n}


def _jobs_of_similarity(study: Study, figures: int) -> dict[str, int]:
    """Jobs of the rules that compare tasks; `figures` are those of the rest."""
    measures, models = study.similarity, len(study.models)
    runs = models * len(study.seeds)
    probe, brain = bool(measures.asked("representations")), bool(measures.asked("encoding"))
    found = {
        "probe": int(probe),
        "stimuli": int(brain),
        "nuisance": int(brain),
        "voxels": int(brain),
        "encode_texts": models * (probe + brain),
        "text_embedding": models * bool(measures.asked("text_embedding")),
        "representations": runs * (probe + brain),
        "sensitivity": runs * len(measures.asked("sensitivity")),
        "encoding": runs * brain,
        "similarity": 1,
        "correlation": 1,
        "figures": figures + 1 + len(measures.measures) + models * (1 + brain),
    }
    return {rule: n for rule, n in found.items() if n}


def frozen_features(runs: list[Run]) -> set[tuple[str, str]]:
    """(model, task) of every training set whose vectors frozen training learns from."""
    return {(run.model, task) for run in runs if run.method == "frozen" for task in run.tasks}


def of_stage(runs: list[Run], stage: str) -> list[Run]:
    """Those of `runs` that have a job in `stage`: pruning compares the tasks of a mixture."""
    return [run for run in runs if stage != "prune" or run.method != "single"]
