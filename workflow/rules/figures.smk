# Figures, from tables alone.


rule figure_dissociation:
    input:
        combined=rules.dissociation.output.combined,
        dissociation=rules.dissociation.output.dissociation,
    output:
        report(
            figure("dissociation"),
            caption="../report/dissociation.rst",
            category="Dissociation",
            labels={"figure": "all mixtures"},
        ),
    log:
        log("figures/dissociation"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        fraction=STUDY.pruning.fraction,
        distinct=STUDY.dissociation.distinct,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_dissociation.py"),
    message:
        "Figure dissociation"
    script:
        "../scripts/figure_dissociation.py"


rule figure_fractions:
    input:
        fractions=rules.dissociation.output.fractions,
        areas=rules.dissociation.output.areas,
    output:
        report(
            figure("fractions.{model}"),
            caption="../report/fractions.rst",
            category="Dissociation",
            labels={"figure": "against the fraction", "model": "{model}"},
        ),
    log:
        log("figures/fractions.{model}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        mixtures={mixture: list(tasks) for mixture, tasks in STUDY.mixture_tasks.items()},
        fraction=STUDY.pruning.fraction,
        method=STUDY.correlated,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_fractions.py"),
    message:
        "Figure fractions.{wildcards.model}"
    script:
        "../scripts/figure_fractions.py"


rule figure_reliability:
    input:
        rules.reliability.output,
    output:
        report(
            figure("reliability"),
            caption="../report/reliability.rst",
            category="Importance",
            labels={"figure": "reliability of importance"},
        ),
    log:
        log("figures/reliability"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_reliability.py"),
    message:
        "Figure reliability"
    script:
        "../scripts/figure_reliability.py"


rule figure_importance:
    input:
        of_seeds("importance.parquet"),
    output:
        report(
            figure("importance.{model}.{mixture}.{method}"),
            caption="../report/importance.rst",
            category="Importance",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/importance.{model}.{mixture}.{method}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        seeds=STUDY.seeds,
        tasks=run_tasks,
        fraction=STUDY.pruning.fraction,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_importance.py"),
    message:
        "Figure importance.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"
    script:
        "../scripts/figure_importance.py"


rule figure_matrix:
    input:
        of_seeds("pruning.parquet"),
    output:
        report(
            figure("matrix.{model}.{mixture}.{method}"),
            caption="../report/matrix.rst",
            category="Pruning",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/matrix.{model}.{mixture}.{method}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        seeds=STUDY.seeds,
        tasks=run_tasks,
        fraction=STUDY.pruning.fraction,
        metrics=main_metrics,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_matrix.py"),
    message:
        "Figure matrix.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"
    script:
        "../scripts/figure_matrix.py"


rule figure_curves:
    input:
        pruning=of_seeds("pruning.parquet"),
        predictions=of_seeds("predictions.parquet"),
    output:
        report(
            figure("curves.{model}.{mixture}.{method}"),
            caption="../report/curves.rst",
            category="Pruning",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/curves.{model}.{mixture}.{method}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        seeds=STUDY.seeds,
        tasks=run_tasks,
        fraction=STUDY.pruning.fraction,
        metrics=main_metrics,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_curves.py"),
    message:
        "Figure curves.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"
    script:
        "../scripts/figure_curves.py"
