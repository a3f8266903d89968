# Figures, from tables only. Every rule but the first states only how it differs from the first. The script
# `figure` calls `draw` of the module `figure` with the inputs and params that it takes, by name.
# A cluster draws several in one job: the profile says how many are in a group.


rule figure_alpha_delta:
    input:
        improvement=rules.improvement.output[0],
    output:
        report(
            figure("alpha-delta.{model}.{mixture}"),
            caption="../report/alpha_delta.rst",
            category="IAT",
            labels={"figure": "alpha and delta", "model": "{model}", "mixture": "{mixture}"},
        ),
    log:
        log("figures/alpha-delta.{model}.{mixture}"),
    group:
        "figures"
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=5,
    params:
        script="figure",
        figure="alpha_delta",
        dpi=STUDY.figures.dpi,
        code=code("plots/figure.py", "plots/alpha_delta.py"),
    message:
        "Figure alpha-delta.{wildcards.model}.{wildcards.mixture}"
    script:
        "../scripts/plots/{params.script}.py"


use rule figure_alpha_delta as figure_reliability with:
    input:
        reliability=rules.reliability.output[0],
    output:
        report(
            figure("reliability"),
            caption="../report/reliability.rst",
            category="Importance",
            labels={"figure": "reliability of importance"},
        ),
    log:
        log("figures/reliability"),
    params:
        figure="reliability",
        mixtures={mixture: list(tasks) for mixture, tasks in STUDY.mixture_tasks.items()},
        code=code("plots/figure.py", "plots/reliability.py"),
    message:
        "Figure reliability"


use rule figure_alpha_delta as figure_dissociation with:
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
    params:
        script="dissociation",
        figure="dissociation",
        mixtures={mixture: list(tasks) for mixture, tasks in STUDY.mixture_tasks.items()},
        fraction=STUDY.pruning.fraction,
        distinct=STUDY.dissociation.distinct,
        code=code("plots/dissociation.py"),
    message:
        "Figure dissociation"


use rule figure_dissociation as figure_preview with:
    input:
        combined=rules.preview_dissociation.output.combined,
        dissociation=rules.preview_dissociation.output.dissociation,
    output:
        [result("preview/figures", Path(path).name) for path in figure("dissociation")],
    log:
        log("preview/figures/dissociation"),
    message:
        "Figure dissociation of the first mixture"


use rule figure_alpha_delta as figure_fractions with:
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
    params:
        figure="fractions",
        mixtures={mixture: list(tasks) for mixture, tasks in STUDY.mixture_tasks.items()},
        main=STUDY.pruning.fraction,
        method=STUDY.correlated,
        code=code("plots/figure.py", "plots/fractions.py"),
    message:
        "Figure fractions.{wildcards.model}"


use rule figure_alpha_delta as figure_importance with:
    input:
        importance=INPUTS.of_seeds("importance.parquet"),
    output:
        report(
            figure("importance.{model}.{mixture}.{method}"),
            caption="../report/importance.rst",
            category="Importance",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/importance.{model}.{mixture}.{method}"),
    params:
        figure="importance",
        seeds=STUDY.seeds,
        tasks=INPUTS.tasks,
        fraction=STUDY.pruning.fraction,
        code=code("plots/figure.py", "plots/importance.py"),
    message:
        "Figure importance.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_matrix with:
    input:
        pruning=INPUTS.of_seeds("pruning.parquet"),
        predictions=INPUTS.of_seeds("predictions.parquet"),
    output:
        report(
            figure("matrix.{model}.{mixture}.{method}"),
            caption="../report/matrix.rst",
            category="Pruning",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/matrix.{model}.{mixture}.{method}"),
    params:
        figure="matrix",
        seeds=STUDY.seeds,
        tasks=INPUTS.tasks,
        fraction=STUDY.pruning.fraction,
        draw_examples=STUDY.pruning.draw_examples,  # for the caption
        metrics=INPUTS.main_metrics,
        code=code("plots/figure.py", "plots/matrix.py"),
    message:
        "Figure matrix.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_curves with:
    input:
        pruning=INPUTS.of_seeds("pruning.parquet"),
        predictions=INPUTS.of_seeds("predictions.parquet"),
    output:
        report(
            figure("curves.{model}.{mixture}.{method}"),
            caption="../report/curves.rst",
            category="Pruning",
            labels={"model": "{model}", "mixture": "{mixture}", "method": "{method}"},
        ),
    log:
        log("figures/curves.{model}.{mixture}.{method}"),
    params:
        script="curves",
        figure="curves",
        counted=bool(STUDY.pruning.heads),
        seeds=STUDY.seeds,
        tasks=INPUTS.tasks,
        fraction=STUDY.pruning.fraction,
        draw_examples=STUDY.pruning.draw_examples,  # for the caption
        metrics=INPUTS.main_metrics,
        code=code("plots/curves.py"),
    message:
        "Figure curves.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_similarity with:
    input:
        similarity=result("tables/similarity.parquet"),
    output:
        report(
            figure("similarity.{model}"),
            caption="../report/similarity.rst",
            category="Similarity",
            labels={"figure": "task similarity", "model": "{model}"},
        ),
    log:
        log("figures/similarity.{model}"),
    params:
        figure="similarity",
        tasks=list(LAYOUT.paradigms),
        labels=similarity_measures.labels(STUDY.similarity.measures),
        code=code("plots/figure.py", "plots/similarity.py"),
    message:
        "Figure similarity.{wildcards.model}"


use rule figure_alpha_delta as figure_scatter with:
    input:
        similarity=result("tables/similarity.parquet"),
        combined=rules.dissociation.output.combined,
        correlation=rules.correlation.output[0],
    output:
        report(
            figure("scatter.{measure}"),
            caption="../report/scatter.rst",
            category="Similarity",
            labels={"figure": "dissociation against similarity", "measure": "{measure}"},
        ),
    log:
        log("figures/scatter.{measure}"),
    params:
        script="scatter",
        figure="scatter",
        paradigms=LAYOUT.paradigms,
        method=STUDY.correlated,
        label=lambda wildcards: similarity_measures.MEASURES[wildcards.measure].label,
        code=code("plots/scatter.py"),
    message:
        "Figure scatter.{wildcards.measure}"


use rule figure_alpha_delta as figure_correlation with:
    input:
        similarity=result("tables/similarity.parquet"),
        combined=rules.dissociation.output.combined,
        correlation=rules.correlation.output[0],
    output:
        report(
            figure("correlation"),
            caption="../report/correlation.rst",
            category="Similarity",
            labels={"figure": "dissociation against similarity"},
        ),
    log:
        log("figures/correlation"),
    params:
        script="correlation",
        figure="correlation",
        paradigms=LAYOUT.paradigms,
        method=STUDY.correlated,
        labels=similarity_measures.labels(STUDY.similarity.measures),
        code=code("plots/correlation.py"),
    message:
        "Figure correlation"


use rule figure_alpha_delta as figure_improvement with:
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
    params:
        script="improvement",
        figure="improvement",
        tasks=INPUTS.tasks,
        metrics=LAYOUT.main_metrics,
        variants=[plain(variant) for variant in STUDY.variants],
        labels=variants.labels(variant.heads for variant in STUDY.variants),
        code=code("plots/improvement.py"),
    message:
        "Figure improvement.{wildcards.model}.{wildcards.mixture}"


use rule figure_alpha_delta as figure_specialization with:
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
    params:
        script="specialization",
        figure="specialization",
        tasks=INPUTS.tasks,
        fraction=STUDY.pruning.fraction,
        code=code("plots/specialization.py"),
    message:
        "Figure specialization.{wildcards.model}.{wildcards.mixture}"


use rule figure_alpha_delta as figure_verdict with:
    input:
        improvement=rules.improvement.output[0],
    output:
        report(
            figure("verdict.{model}.{mixture}"),
            caption="../report/verdict.rst",
            category="IAT",
            labels={"figure": "verdict", "model": "{model}", "mixture": "{mixture}"},
        ),
    log:
        log("figures/verdict.{model}.{mixture}"),
    params:
        figure="verdict",
        labels=variants.labels(variant.heads for variant in STUDY.variants),
        code=code("plots/figure.py", "plots/verdict.py"),
    message:
        "Figure verdict.{wildcards.model}.{wildcards.mixture}"


use rule figure_alpha_delta as figure_transfer with:
    input:
        rules.transfer_scores.output.summary,
    output:
        report(
            figure("transfer.{model}.{task}"),
            caption="../report/transfer.rst",
            category="Transfer",
            labels={"figure": "few-shot transfer", "model": "{model}", "task": "{task}"},
        ),
    log:
        log("figures/transfer.{model}.{task}"),
    params:
        script="transfer",
        figure="transfer",
        metrics=LAYOUT.metrics,
        controls=variants.places(STUDY.transfer.methods),
        code=code("plots/transfer.py"),
    message:
        "Figure transfer.{wildcards.model}.{wildcards.task}"


if STUDY.brain:

    use rule figure_alpha_delta as figure_brain_encoding with:
        input:
            encoding=[
                result(f"similarity/{{model}}/seed{seed}/brain_encoding.parquet")
                for seed in STUDY.seeds
            ],
            summaries=[
                result(f"similarity/{{model}}/seed{seed}/brain_encoding_summary.parquet")
                for seed in STUDY.seeds
            ],
        output:
            report(
                figure("brain_encoding.{model}"),
                caption="../report/brain_encoding.rst",
                category="Similarity",
                labels={"figure": "brain encoding", "model": "{model}"},
            ),
        log:
            log("figures/brain_encoding.{model}"),
        params:
            figure="brain_encoding",
            seeds=STUDY.seeds,
            tasks=LAYOUT.compared,
            code=code("plots/figure.py", "plots/brain_encoding.py"),
        message:
            "Figure brain_encoding.{wildcards.model}"
