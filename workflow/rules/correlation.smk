# Whether tasks that are alike dissociate less, and the figures of it, from tables alone.


rule correlation:
    input:
        similarity=result("tables/similarity.parquet"),
        combined=rules.dissociation.output.combined,
    output:
        result("tables/correlation.parquet"),
    log:
        log("correlation"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=STUDY.study,
        paradigms=PARADIGMS,
        method=STUDY.correlated,
        seed=STUDY.data_seed,
        code=code("correlation.py"),
    message:
        "Correlation of dissociation with task similarity"
    script:
        "../scripts/correlation.py"


rule figure_correlation:
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
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        paradigms=PARADIGMS,
        method=STUDY.correlated,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_correlation.py"),
    message:
        "Figure correlation"
    script:
        "../scripts/figure_correlation.py"


rule figure_scatter:
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
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        paradigms=PARADIGMS,
        method=STUDY.correlated,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_scatter.py"),
    message:
        "Figure scatter.{wildcards.measure}"
    script:
        "../scripts/figure_scatter.py"


rule figure_similarity:
    input:
        result("tables/similarity.parquet"),
    output:
        report(
            figure("similarity.{model}"),
            caption="../report/similarity.rst",
            category="Similarity",
            labels={"figure": "task similarity", "model": "{model}"},
        ),
    log:
        log("figures/similarity.{model}"),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        tasks=list(PARADIGMS),
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_similarity.py"),
    message:
        "Figure similarity.{wildcards.model}"
    script:
        "../scripts/figure_similarity.py"
