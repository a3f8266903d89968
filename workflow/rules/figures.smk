# The list of figures, and the rules made from it, which need only tables. On a cluster, a job draws several, as
# many as the profile puts into a group.
from headspec.pipeline.figures import Figure

RUN_WILDCARDS = ("model", "mixture", "method")
MIXTURES = {mixture: list(tasks) for mixture, tasks in STUDY.mixture_tasks.items()}
RUNS = expand(result(RUN), seed=STUDY.seeds, allow_missing=True)
PRUNED = {name: [f"{run}/{name}.parquet" for run in RUNS] for name in ("pruning", "predictions")}
COMPARED_TASKS = {
    "similarity": result("tables/similarity.parquet"),
    "combined": rules.dissociation.output.combined,
    "correlation": rules.correlation.output[0],
}
HEADS = {"heads": rules.heads.output.heads}
ROLES = {"roles": rules.heads.output.roles}
GATES = {"gates": rules.gate_tables.output.gates}
TASKS = {"tasks": job(Job.task_names)}
PAIRED = {"paradigms": LAYOUT.paradigms, "method": STUDY.correlated}
MEASURE_LABELS = {"labels": similarity_measures.MEASURES.labels(STUDY.similarity.measures)}
VARIANT_LABELS = {
    "labels": variants.RETRAININGS.labels(variant.retraining for variant in STUDY.variants.values())
}
METHOD_LOOKS = {
    "labels": pruning_methods.PRUNING_METHODS.labels(pruned.methods(LAYOUT)),
    "places": pruning_methods.PRUNING_METHODS.places(pruned.methods(LAYOUT)),
}
PRUNING = TASKS | {
    "seeds": STUDY.seeds,
    "fraction": STUDY.pruning.fraction,
    "metrics": job(Job.main_metrics),
    "draw_examples": STUDY.pruning.draw_examples,  # for the caption
}

FIGURES = [
    Figure(
        "importance",
        "importance.py:draw_importance",
        "importance",
        "Importance",
        RUN_WILDCARDS,
        {"importance": [f"{run}/importance.parquet" for run in RUNS]},
        {"seeds": STUDY.seeds, "fraction": STUDY.pruning.fraction} | TASKS,
    ),
    Figure(
        "reliability",
        "importance.py:draw_reliability",
        "reliability of importance",
        "Importance",
        (),
        {"reliability": rules.reliability.output[0]},
        {"mixtures": MIXTURES},
    ),
    Figure(
        "matrix", "dissociation.py:draw_matrix", "matrix", "Pruning", RUN_WILDCARDS, PRUNED, PRUNING
    ),
    Figure(
        "curves",
        "curves.py:draw_curves",
        "curves",
        "Pruning",
        RUN_WILDCARDS,
        PRUNED,
        PRUNING | {"counted": bool(STUDY.pruning.heads)},
    ),
    Figure(
        "dissociation",
        "dissociation.py:draw_dissociation",
        "all mixtures",
        "Dissociation",
        (),
        {
            "combined": rules.dissociation.output.combined,
            "dissociation": rules.dissociation.output.dissociation,
        },
        {
            "mixtures": MIXTURES,
            "fraction": STUDY.pruning.fraction,
            "distinct": STUDY.dissociation.distinct,
        },
    ),
    Figure(
        "fractions",
        "curves.py:draw_fractions",
        "against the fraction",
        "Dissociation",
        ("model",),
        {
            "fractions": rules.dissociation.output.fractions,
            "areas": rules.dissociation.output.areas,
        },
        {"mixtures": MIXTURES, "main": STUDY.pruning.fraction, "method": STUDY.correlated},
    ),
    Figure(
        "matrix_parts",
        "matrix_parts.py:draw_matrix_parts",
        "what matrices are made of",
        "Dissociation",
        ("model",),
        {"matrix_parts": rules.dissociation.output.matrix_parts},
        {"mixtures": MIXTURES, "method": STUDY.correlated},
    ),
    Figure(
        "shared_fragility",
        "shared_fragility.py:draw_shared_fragility",
        "whether models share fragile tasks",
        "Dissociation",
        (),
        {"shared_fragility": rules.dissociation.output.shared_fragility},
        {"mixtures": LAYOUT.mixtures_of_three, "method": STUDY.correlated},
    ),
    Figure(
        "similarity",
        "similarity.py:draw_similarity",
        "task similarity",
        "Similarity",
        ("model",),
        {"similarity": result("tables/similarity.parquet")},
        {"tasks": list(LAYOUT.paradigms)} | MEASURE_LABELS,
    ),
    Figure(
        "scatter",
        "similarity.py:draw_scatter",
        "dissociation against similarity",
        "Similarity",
        ("measure",),
        COMPARED_TASKS,
        PAIRED | MEASURE_LABELS,
    ),
    Figure(
        "correlation",
        "similarity.py:draw_correlation",
        "dissociation against similarity",
        "Similarity",
        (),
        COMPARED_TASKS,
        PAIRED | MEASURE_LABELS,
    ),
    Figure(
        "training/improvement",
        "iat.py:draw_improvement",
        "improvement",
        "IAT",
        ("model", "mixture"),
        {
            "improvement": rules.improvement.output.improvement,
            "scores": rules.improvement.output.scores,
        },
        {
            "metrics": STUDY.main_metrics,
            "variants": [plain(variant) for variant in STUDY.variants.values()],
        }
        | TASKS
        | VARIANT_LABELS,
        file="improvement",
    ),
    Figure(
        "training/specialization",
        "dissociation.py:draw_specialization",
        "specialization",
        "IAT",
        ("model", "mixture"),
        {
            "specialization": rules.specialization.output[0],
            "combined": rules.iat_dissociation.output.combined,
            "dissociation": rules.iat_dissociation.output.dissociation,
        },
        {"fraction": STUDY.pruning.fraction} | TASKS,
        file="specialization",
    ),
    Figure(
        "training/verdict",
        "iat.py:draw_verdict",
        "verdict",
        "IAT",
        ("model", "mixture"),
        {"improvement": rules.improvement.output.improvement},
        VARIANT_LABELS,
        file="verdict",
    ),
    Figure(
        "training/alpha_delta",
        "iat.py:draw_alpha_delta",
        "alpha and delta",
        "IAT",
        ("model", "mixture"),
        {"improvement": rules.improvement.output.improvement},
        file="alpha-delta",
    ),
    Figure(
        "training/transfer",
        "transfer.py:draw_transfer",
        "few-shot transfer",
        "Transfer",
        ("model", "task"),
        {"summary": rules.transfer_scores.output.summary},
        {"metrics": STUDY.main_metrics, "controls": variants.places(STUDY.transfer.methods)},
        file="transfer",
    ),
    Figure(
        "atlas/heads",
        "atlas/heads.py:draw_roles",
        "roles and importance",
        "Head atlas",
        RUN_WILDCARDS,
        HEADS | ROLES,
        TASKS,
    ),
    Figure(
        "atlas/ablation",
        "atlas/heads.py:draw_ablation",
        "single-head ablation",
        "Head atlas",
        RUN_WILDCARDS,
        HEADS,
        TASKS,
    ),
    Figure(
        "atlas/ranked",
        "atlas/rankings.py:draw_pruning_curves",
        "cumulative pruning",
        "Head atlas",
        RUN_WILDCARDS,
        {
            "curves": rules.rankings.output.pruning_curves,
            "cumulative": f"{RUNS[0]}/atlas/cumulative.parquet",
        },
        {
            "metrics": job(Job.main_metrics),
            "labels": head_measures.MEASURES.labels(head_measures.pruned(STUDY.atlas.rankings)),
            "places": head_measures.places(STUDY.atlas.rankings),
        }
        | TASKS,
    ),
    Figure(
        "atlas/agreement",
        "atlas/rankings.py:draw_agreement",
        "agreement of measures",
        "Head atlas",
        RUN_WILDCARDS,
        {"agreement": rules.heads.output.agreement},
        {"labels": head_measures.MEASURES.labels(head_measures.compared(STUDY.atlas.rankings))},
    ),
    Figure(
        "atlas/confidence",
        "atlas/maps.py:draw_confidence",
        "confidence",
        "Head atlas",
        RUN_WILDCARDS,
        HEADS,
        TASKS,
    ),
    Figure(
        "atlas/change",
        "atlas/maps.py:draw_change",
        "before and after",
        "Head atlas",
        RUN_WILDCARDS,
        HEADS,
        {
            "before": lambda wildcards: LAYOUT.before[wildcards.method],
            "labels": head_measures.MEASURES.labels(["importance", "confidence", "ablation"]),
        }
        | TASKS,
    ),
    Figure(
        "atlas/differences",
        "atlas/maps.py:draw_differences",
        "differences between tasks",
        "Head atlas",
        RUN_WILDCARDS,
        {"differences": rules.heads.output.differences},
        {
            "labels": head_measures.MEASURES.labels(
                ["importance", "ablation_size", "relevance", "confidence"]
            )
        },
    ),
    Figure(
        "atlas/believe",
        "atlas/rankings.py:draw_belief",
        "which measure to believe",
        "Head atlas",
        (),
        {"belief": rules.belief.output[0]},
        {
            "mixtures": list(STUDY.mixture_tasks),
            "labels": head_measures.MEASURES.labels(head_measures.pruned(STUDY.atlas.rankings)),
        },
    ),
    Figure(
        "gates/budgets",
        "gates.py:draw_budgets",
        "metric by heads kept",
        "Gates",
        RUN_WILDCARDS,
        {"budgets": rules.gate_tables.output.budgets},
        {"metrics": job(Job.main_metrics)} | METHOD_LOOKS,
    ),
    Figure(
        "gates/kept",
        "kept_heads.py:draw_kept_heads",
        "heads kept",
        "Gates",
        RUN_WILDCARDS,
        GATES,
        METHOD_LOOKS | TASKS,
    ),
    Figure(
        "gates/learning",
        "gates.py:draw_learning",
        "gates while they learn",
        "Gates",
        RUN_WILDCARDS,
        GATES,
        METHOD_LOOKS,
    ),
    Figure(
        "gates/overlap",
        "gates.py:draw_overlap",
        "overlap of kept heads",
        "Gates",
        ("model",),
        {"overlap": rules.gate_tables.output.overlap},
        METHOD_LOOKS,
    ),
    Figure(
        "gates/kept_roles",
        "kept_heads.py:draw_kept_roles",
        "roles of kept heads",
        "Gates",
        RUN_WILDCARDS,
        {"counts": rules.kept_roles.output.counts},
        METHOD_LOOKS | TASKS,
    ),
    Figure(
        "gates/kept_kinds",
        "kept_heads.py:draw_kept_kinds",
        "kinds of attention kept",
        "Gates",
        RUN_WILDCARDS,
        {"kinds": rules.gate_tables.output.kinds},
        METHOD_LOOKS | TASKS,
    ),
    Figure(
        "probes/known",
        "probes.py:draw_known",
        "labels that heads know",
        "Probes",
        ("model", "task"),
        {"probes": rules.probe_tables.output.probes},
        {"joint": job(probing.joint)},
    ),
    Figure(
        "probes/changes",
        "probes.py:draw_probe_changes",
        "before and after",
        "Probes",
        ("model", "task"),
        {
            "changes": rules.probe_tables.output.changes,
            "probes": rules.probe_tables.output.probes,
        },
        {"joint": job(probing.joint)},
    ),
    Figure(
        "probes/heads",
        "probes.py:draw_probed_heads",
        "heads and labels",
        "Probes",
        ("model", "task"),
        {"probed": job(probing.shown_tables)},
        {"shown": job(probing.shown)},
    ),
    Figure(
        "probes/sharing",
        "gains.py:draw_sharing",
        "tasks alone and together",
        "Probes",
        ("model",),
        {"sharing": result("tables/sharing.parquet")},
        {"metrics": lambda wildcards: probing.main_metrics(LAYOUT)},
    ),
    Figure(
        "gains",
        "gains.py:draw_gains",
        "gains of pairs",
        "Grouping",
        ("model",),
        {
            "gains": result("tables/gains.parquet"),
            "predictions": rules.gain_predictions.output.predictions,
        },
        {"metrics": {task: STUDY.main_metrics[task] for task in LAYOUT.compared}},
    ),
]
if STUDY.brain:
    FIGURES.append(
        Figure(
            "brain_encoding",
            "similarity.py:draw_brain_encoding",
            "brain encoding",
            "Similarity",
            ("model",),
            {
                "encoding": expand(
                    rules.brain_encoding.output.encoding, seed=STUDY.seeds, allow_missing=True
                ),
                "summaries": expand(
                    rules.brain_encoding.output.summary, seed=STUDY.seeds, allow_missing=True
                ),
            },
            {"seeds": STUDY.seeds, "tasks": LAYOUT.compared},
        )
    )

for each in FIGURES:

    rule:
        name:
            each.rule
        input:
            **each.inputs,
        output:
            report(
                figure(each.path),
                caption=f"../report/{each.name}.rst",
                category=each.category,
                labels={"figure": each.title} | {name: f"{{{name}}}" for name in each.wildcards},
            ),
        log:
            log(f"figures/{each.path}"),
        group:
            "figures"
        conda:
            "../../envs/figures.yaml"
        resources:
            mem_mb=4000,
            runtime=5,
        params:
            **each.params,
            figure=each.name,
            drawn_by=each.drawn_by,
            dpi=STUDY.figures.dpi,
            code=code("plots/figure.py", f"plots/{each.drawn_by.partition(':')[0]}"),
        message:
            each.message
        script:
            "../scripts/plots/figure.py"


rule figure_preview:
    input:
        combined=rules.preview_dissociation.output.combined,
        dissociation=rules.preview_dissociation.output.dissociation,
    output:
        [result("preview/figures", Path(path).name) for path in figure("dissociation")],
    log:
        log("preview/figures/dissociation"),
    group:
        "figures"
    conda:
        "../../envs/figures.yaml"
    resources:
        mem_mb=4000,
        runtime=5,
    params:
        figure="dissociation",
        drawn_by="dissociation.py:draw_dissociation",
        dpi=STUDY.figures.dpi,
        code=code("plots/figure.py", "plots/dissociation.py"),
        mixtures=MIXTURES,
        fraction=STUDY.pruning.fraction,
        distinct=STUDY.dissociation.distinct,
    message:
        "Figure dissociation of the first mixture"
    script:
        "../scripts/plots/figure.py"
