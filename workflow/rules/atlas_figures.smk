# Figures of the head atlas.


use rule figure_alpha_delta as figure_atlas_heads with:
    input:
        heads=rules.heads.output.heads,
        roles=rules.heads.output.roles,
    output:
        report(
            figure("atlas/heads.{model}.{mixture}.{method}"),
            caption="../report/atlas_heads.rst",
            category="Head atlas",
            labels={
                "figure": "roles and importance",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/heads.{model}.{mixture}.{method}"),
    params:
        figure="atlas/heads",
        tasks=INPUTS.tasks,
        code=code("plots/figure.py", "plots/atlas/heads.py"),
    message:
        "Figure atlas/heads.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_ablation with:
    input:
        heads=rules.heads.output.heads,
    output:
        report(
            figure("atlas/ablation.{model}.{mixture}.{method}"),
            caption="../report/atlas_ablation.rst",
            category="Head atlas",
            labels={
                "figure": "single-head ablation",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/ablation.{model}.{mixture}.{method}"),
    params:
        figure="atlas/ablation",
        tasks=INPUTS.tasks,
        code=code("plots/figure.py", "plots/atlas/ablation.py"),
    message:
        "Figure atlas/ablation.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_ranked with:
    input:
        curves=rules.rankings.output.pruning_curves,
        cumulative=INPUTS.of_first_seed("atlas/cumulative.parquet"),
    output:
        report(
            figure("atlas/ranked.{model}.{mixture}.{method}"),
            caption="../report/atlas_ranked.rst",
            category="Head atlas",
            labels={
                "figure": "cumulative pruning",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/ranked.{model}.{mixture}.{method}"),
    params:
        script="atlas/ranked",
        figure="atlas/ranked",
        tasks=INPUTS.tasks,
        metrics=INPUTS.main_metrics,
        labels=head_measures.labels(head_measures.pruned(STUDY.atlas.rankings)),
        places=head_measures.places(STUDY.atlas.rankings),
        code=code("plots/atlas/ranked.py"),
    message:
        "Figure atlas/ranked.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_agreement with:
    input:
        agreement=rules.heads.output.agreement,
    output:
        report(
            figure("atlas/agreement.{model}.{mixture}.{method}"),
            caption="../report/atlas_agreement.rst",
            category="Head atlas",
            labels={
                "figure": "agreement of measures",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/agreement.{model}.{mixture}.{method}"),
    params:
        figure="atlas/agreement",
        labels=head_measures.labels(head_measures.compared(STUDY.atlas.rankings)),
        code=code("plots/figure.py", "plots/atlas/agreement.py"),
    message:
        "Figure atlas/agreement.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_confidence with:
    input:
        heads=rules.heads.output.heads,
    output:
        report(
            figure("atlas/confidence.{model}.{mixture}.{method}"),
            caption="../report/atlas_confidence.rst",
            category="Head atlas",
            labels={
                "figure": "confidence",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/confidence.{model}.{mixture}.{method}"),
    params:
        figure="atlas/confidence",
        tasks=INPUTS.tasks,
        code=code("plots/figure.py", "plots/atlas/confidence.py"),
    message:
        "Figure atlas/confidence.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_change with:
    input:
        heads=rules.heads.output.heads,
    output:
        report(
            figure("atlas/change.{model}.{mixture}.{method}"),
            caption="../report/atlas_change.rst",
            category="Head atlas",
            labels={
                "figure": "before and after",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/change.{model}.{mixture}.{method}"),
    params:
        script="atlas/change",
        figure="atlas/change",
        tasks=INPUTS.tasks,
        before=lambda wildcards: LAYOUT.before[wildcards.method],
        labels=head_measures.labels(["importance", "confidence", "ablation"]),
        code=code("plots/atlas/change.py"),
    message:
        "Figure atlas/change.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_differences with:
    input:
        differences=rules.heads.output.differences,
    output:
        report(
            figure("atlas/differences.{model}.{mixture}.{method}"),
            caption="../report/atlas_differences.rst",
            category="Head atlas",
            labels={
                "figure": "differences between tasks",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/atlas/differences.{model}.{mixture}.{method}"),
    params:
        figure="atlas/differences",
        labels=head_measures.labels(["importance", "ablation_size", "relevance", "confidence"]),
        code=code("plots/figure.py", "plots/atlas/differences.py"),
    message:
        "Figure atlas/differences.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_atlas_believe with:
    input:
        belief=rules.belief.output[0],
    output:
        report(
            figure("atlas/believe"),
            caption="../report/atlas_believe.rst",
            category="Head atlas",
            labels={"figure": "which measure to believe"},
        ),
    log:
        log("figures/atlas/believe"),
    params:
        figure="atlas/believe",
        mixtures=list(STUDY.mixture_tasks),
        labels=head_measures.labels(head_measures.pruned(STUDY.atlas.rankings)),
        code=code("plots/figure.py", "plots/atlas/believe.py"),
    message:
        "Figure atlas/believe"
