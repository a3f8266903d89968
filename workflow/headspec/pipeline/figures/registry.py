"""The list of figures."""

import itertools
from collections.abc import Callable, Iterable
from typing import Any

from headspec.config import variants
from headspec.config.measures import heads, similarity
from headspec.config.pruning_methods import PRUNING_METHODS, any_learnt
from headspec.config.runs import RUN
from headspec.config.study import plain
from headspec.pipeline.figures import groups
from headspec.pipeline.figures.figure import Arguments, Figure
from headspec.pipeline.jobs import probing, pruned
from headspec.pipeline.jobs.job import Job
from headspec.pipeline.layout import Layout
from headspec.registry import Registry


def _labels(registry: Registry[Any], names: Callable[[Job], Iterable[str | None]]) -> Arguments:
    return {"labels": lambda job: registry.labels(names(job))}


def _rankings(job: Job) -> list[str]:
    return job.study.atlas.rankings


TASKS: Arguments = {"tasks": Job.task_names}
METRICS: Arguments = {"metrics": Job.main_metrics}
ALL_METRICS: Arguments = {"metrics": lambda job: job.study.main_metrics}
SEEDS: Arguments = {"seeds": lambda job: job.study.seeds}
FRACTION: Arguments = {"fraction": lambda job: job.study.pruning.fraction}
MIXTURES: Arguments = {
    "mixtures": lambda job: {name: list(tasks) for name, tasks in job.study.mixture_tasks.items()}
}
CORRELATED: Arguments = {"method": lambda job: job.study.correlated}
JOINT: Arguments = {"joint": probing.joint}
PRUNING = TASKS | METRICS | SEEDS | FRACTION
PRUNING |= {"draw_examples": lambda job: job.study.pruning.draw_examples}  # for the caption
MEASURES = _labels(similarity.MEASURES, lambda job: job.study.similarity.measures)
VARIANTS = _labels(
    variants.RETRAININGS, lambda job: (variant.retraining for variant in job.study.variants.values())
)
WAYS = _labels(PRUNING_METHODS, lambda job: pruned.methods(job.layout))
WAYS |= {"places": lambda job: PRUNING_METHODS.places(pruned.methods(job.layout))}
RANKINGS = _labels(heads.MEASURES, lambda job: heads.pruned(_rankings(job)))

# --- figures

MODEL, TASK, MIXTURE = ("model",), ("model", "task"), ("model", "mixture")
RUNS = (*MIXTURE, "method")
PRUNED = {"pruning": f"{RUN}/pruning", "predictions": f"{RUN}/predictions"}
CORRELATION = {"similarity": "similarity", "combined": "combined", "correlation": "correlation"}
GATES, HEADS, IMPROVEMENT = {"gates": "gates"}, {"heads": "heads"}, {"improvement": "improvement"}

FIGURES = [
    Figure(
        "importance", "importance.py:draw_importance", "importance", "Importance", RUNS, groups.mixed,
        {"importance": f"{RUN}/importance"}, SEEDS | FRACTION | TASKS,
    ),
    Figure(
        "reliability", "importance.py:draw_reliability", "reliability of importance", "Importance", (),
        lambda layout: groups.once(groups.few(layout)), {"reliability": "reliability"}, MIXTURES,
    ),
    Figure(
        "matrix", "dissociation.py:draw_matrix", "matrix", "Pruning", RUNS, groups.mixed, PRUNED, PRUNING,
    ),
    Figure(
        "curves", "curves.py:draw_curves", "curves", "Pruning", RUNS, groups.mixed, PRUNED,
        PRUNING | {"counted": lambda job: bool(job.study.pruning.heads)},
    ),
    Figure(
        "dissociation", "dissociation.py:draw_dissociation", "all mixtures", "Dissociation", (),
        lambda layout: groups.once(groups.few_mixed(layout)),
        {"combined": "combined", "dissociation": "dissociation"},
        MIXTURES | FRACTION | {"distinct": lambda job: job.study.dissociation.distinct},
    ),
    Figure(
        "fractions", "curves.py:draw_fractions", "against the fraction", "Dissociation", MODEL,
        groups.models_if_mixed, {"fractions": "fractions", "areas": "areas"},
        MIXTURES | CORRELATED | {"main": lambda job: job.study.pruning.fraction},
    ),
    Figure(
        "matrix_parts", "matrix_parts.py:draw_matrix_parts", "what matrices are made of", "Dissociation",
        MODEL, groups.models_if_mixed, {"matrix_parts": "matrix_parts"}, MIXTURES | CORRELATED,
    ),
    Figure(
        "shared_fragility", "shared_fragility.py:draw_shared_fragility",
        "whether models share fragile tasks", "Dissociation", (), groups.compared_models,
        {"shared_fragility": "shared_fragility"},
        CORRELATED | {"mixtures": lambda job: job.layout.mixtures_of_three},
    ),
    Figure(
        "similarity", "similarity.py:draw_similarity", "task similarity", "Similarity", MODEL,
        lambda layout: groups.models(layout, bool(layout.study.similarity.measures)),
        {"similarity": "similarity"},
        MEASURES | {"tasks": lambda job: job.layout.compared},
    ),
    Figure(
        "scatter", "similarity.py:draw_scatter", "dissociation against similarity", "Similarity",
        ("measure",), lambda layout: [(measure,) for measure in layout.study.similarity.measures],
        CORRELATION, MEASURES | CORRELATED | {"paradigms": lambda job: job.layout.paradigms},
    ),
    Figure(
        "correlation", "similarity.py:draw_correlation", "dissociation against similarity", "Similarity", (),
        lambda layout: groups.once(bool(layout.study.similarity.measures)), CORRELATION,
        MEASURES | CORRELATED | {"paradigms": lambda job: job.layout.paradigms},
    ),
    Figure(
        "brain_encoding", "similarity.py:draw_brain_encoding", "brain encoding", "Similarity", MODEL,
        lambda layout: groups.models(layout, layout.study.brain is not None),
        {"encoding": "similarity/{model}/seed{seed}/brain_encoding",
         "summaries": "similarity/{model}/seed{seed}/brain_encoding_summary"},
        SEEDS | {"tasks": lambda job: job.layout.compared},
    ),
    Figure(
        "training/improvement", "iat.py:draw_improvement", "improvement", "IAT", MIXTURE, groups.iat,
        IMPROVEMENT | {"scores": "iat"},
        TASKS | ALL_METRICS | VARIANTS
        | {"variants": lambda job: [plain(variant) for variant in job.study.variants.values()]},
        file="improvement",
    ),
    Figure(
        "training/specialization", "dissociation.py:draw_specialization", "specialization", "IAT", MIXTURE,
        groups.iat, {"specialization": "specialization", "combined": "iat_combined",
               "dissociation": "iat_dissociation"},
        FRACTION | TASKS, file="specialization",
    ),
    Figure(
        "training/verdict", "iat.py:draw_verdict", "verdict", "IAT", MIXTURE, groups.iat, IMPROVEMENT,
        VARIANTS, file="verdict",
    ),
    Figure(
        "training/alpha_delta", "iat.py:draw_alpha_delta", "alpha and delta", "IAT", MIXTURE,
        groups.swept, IMPROVEMENT, file="alpha-delta",
    ),
    Figure(
        "training/transfer", "transfer.py:draw_transfer", "few-shot transfer", "Transfer", TASK,
        lambda layout: itertools.product(layout.study.models, layout.study.transfer.tasks),
        {"summary": "transfer_summary"},
        ALL_METRICS | {"controls": lambda job: variants.places(job.study.transfer.methods)},
        file="transfer",
    ),
    Figure(
        "atlas/heads", "atlas/heads.py:draw_roles", "roles and importance", "Head atlas", RUNS, groups.atlas,
        HEADS | {"roles": "head_roles"}, TASKS,
    ),
    Figure(
        "atlas/ablation", "atlas/heads.py:draw_ablation", "single-head ablation", "Head atlas", RUNS,
        groups.atlas, HEADS, TASKS,
    ),
    Figure(
        "atlas/ranked", "atlas/rankings.py:draw_pruning_curves", "cumulative pruning", "Head atlas", RUNS,
        groups.atlas,
        {"curves": "pruning_curves",
         "cumulative": lambda job: job.run_file("atlas/cumulative.parquet", seed=str(job.study.seeds[0]))},
        TASKS | METRICS | RANKINGS | {"places": lambda job: heads.places(_rankings(job))},
    ),
    Figure(
        "atlas/agreement", "atlas/rankings.py:draw_agreement", "agreement of measures", "Head atlas", RUNS,
        groups.atlas, {"agreement": "agreement"},
        _labels(heads.MEASURES, lambda job: heads.compared(_rankings(job))),
    ),
    Figure(
        "atlas/confidence", "atlas/maps.py:draw_confidence", "confidence", "Head atlas", RUNS, groups.atlas,
        HEADS, TASKS,
    ),
    Figure(
        "atlas/change", "atlas/maps.py:draw_change", "before and after", "Head atlas", RUNS,
        groups.before_and_after, HEADS,
        TASKS | {"before": lambda job: job.layout.before[job.wildcards.method]}
        | _labels(heads.MEASURES, lambda job: ["importance", "confidence", "ablation"]),
    ),
    Figure(
        "atlas/differences", "atlas/maps.py:draw_differences", "differences between tasks", "Head atlas",
        RUNS, groups.several_tasks,
        {"differences": "task_differences"},
        _labels(heads.MEASURES, lambda job: ["importance", "ablation_size", "relevance", "confidence"]),
    ),
    Figure(
        "atlas/believe", "atlas/rankings.py:draw_belief", "which measure to believe", "Head atlas", (),
        lambda layout: groups.once(True), {"belief": "belief"},
        RANKINGS | {"mixtures": lambda job: list(job.study.mixture_tasks)},
    ),
    Figure(
        "gates/budgets", "gates.py:draw_budgets", "metric by heads kept", "Gates", RUNS, groups.gates,
        {"budgets": "budgets"}, METRICS | WAYS,
    ),
    Figure(
        "gates/kept", "kept_heads.py:draw_kept_heads", "heads kept", "Gates", RUNS, groups.gates, GATES,
        WAYS | TASKS,
    ),
    Figure(
        "gates/learning", "gates.py:draw_learning", "gates while they learn", "Gates", RUNS,
        lambda layout: groups.gates(layout, any_learnt(layout.study.gates.pruning_methods)), GATES, WAYS,
    ),
    Figure(
        "gates/overlap", "gates.py:draw_overlap", "overlap of kept heads", "Gates", MODEL, groups.overlapping,
        {"overlap": "overlap"}, WAYS,
    ),
    Figure(
        "gates/kept_roles", "kept_heads.py:draw_kept_roles", "roles of kept heads", "Gates", RUNS,
        lambda layout: groups.gates(layout, layout.has_roles), {"counts": "role_counts"}, WAYS | TASKS,
    ),
    Figure(
        "gates/kept_kinds", "kept_heads.py:draw_kept_kinds", "kinds of attention kept", "Gates", RUNS,
        groups.gates, {"kinds": "kept_kinds"}, WAYS | TASKS,
    ),
    Figure(
        "probes/known", "probes.py:draw_known", "labels that heads know", "Probes", TASK, groups.probed,
        {"probes": "probes"}, JOINT,
    ),
    Figure(
        "probes/changes", "probes.py:draw_probe_changes", "before and after", "Probes", TASK, groups.probed,
        {"changes": "probe_changes", "probes": "probes"}, JOINT,
    ),
    Figure(
        "probes/heads", "probes.py:draw_probed_heads", "heads and labels", "Probes", TASK, groups.probed,
        {"probed": probing.shown_tables}, {"shown": probing.shown},
    ),
    Figure(
        "probes/sharing", "gains.py:draw_sharing", "tasks alone and together", "Probes", MODEL,
        lambda layout: dict.fromkeys((model,) for model, _ in groups.probed(layout)), {"sharing": "sharing"},
        {"metrics": lambda job: probing.main_metrics(job.layout)},
    ),
    Figure(
        "gains", "gains.py:draw_gains", "gains of pairs", "Grouping", MODEL, groups.models,
        {"gains": "gains", "predictions": "gain_predictions"},
        {"metrics": lambda job: {task: job.study.main_metrics[task] for task in job.layout.compared}},
    ),
]  # fmt: skip


def names(layout: Layout, *categories: str) -> list[str]:
    """Return the names of a study's figures in some categories of the report, without suffixes."""
    return [
        ".".join([each.file or each.name, *group])
        for each in FIGURES
        if each.category in categories
        for group in each.groups(layout)
    ]
