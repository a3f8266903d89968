# Figures of IAT, from tables alone.


rule figure_improvement:
    input:
        improvement=rules.improvement.output[0],
        scores=rules.iat_scores.output[0],
    output:
        report(
            figure("improvement.{model}.{mixture}"),
            caption="../report/improvement.rst",
            category="IAT",
            labels={"figure": "improvement", "model": "{model}", "mixture": "{mixture}"},
        ),
    log:
        log("figures/improvement.{model}.{mixture}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        tasks=run_tasks,
        metrics={task: metrics[0] for task, metrics in TASK_METRICS.items()},
        variants=[plain(variant) for variant in STUDY.variants],
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_improvement.py"),
    message:
        "Figure improvement.{wildcards.model}.{wildcards.mixture}"
    script:
        "../scripts/figure_improvement.py"


rule figure_specialization:
    input:
        specialization=rules.specialization.output[0],
        combined=rules.iat_dissociation.output.combined,
        dissociation=rules.iat_dissociation.output.dissociation,
    output:
        report(
            figure("specialization.{model}.{mixture}"),
            caption="../report/specialization.rst",
            category="IAT",
            labels={"figure": "specialization", "model": "{model}", "mixture": "{mixture}"},
        ),
    log:
        log("figures/specialization.{model}.{mixture}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        tasks=run_tasks,
        fraction=STUDY.pruning.fraction,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_specialization.py"),
    message:
        "Figure specialization.{wildcards.model}.{wildcards.mixture}"
    script:
        "../scripts/figure_specialization.py"


rule figure_alpha_delta:
    input:
        rules.improvement.output[0],
    output:
        report(
            figure("alpha-delta.{model}.{mixture}"),
            caption="../report/alpha_delta.rst",
            category="IAT",
            labels={"figure": "alpha and delta", "model": "{model}", "mixture": "{mixture}"},
        ),
    log:
        log("figures/alpha-delta.{model}.{mixture}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_alpha_delta.py"),
    message:
        "Figure alpha-delta.{wildcards.model}.{wildcards.mixture}"
    script:
        "../scripts/figure_alpha_delta.py"
