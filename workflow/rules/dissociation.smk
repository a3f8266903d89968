# Dissociation scores, their intervals and tests, from predictions alone.


rule dissociation:
    input:
        [result("runs", run.path, "predictions.parquet") for run in MIXED],
    output:
        dissociation=result("tables/dissociation.parquet"),
        mixtures=result("tables/mixtures.parquet"),
        combined=result("tables/combined.parquet"),
        fractions=result("tables/fractions.parquet"),
        areas=result("tables/areas.parquet"),
    log:
        log("dissociation"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in MIXED],
        metrics={task: metrics[0] for task, metrics in TASK_METRICS.items()},
        pruning=settings("pruning", "fraction", "fractions"),
        dissociation=settings("dissociation", "resamples", "confidence", "distinct"),
        seed=STUDY.data_seed,
        code=code("dissociation.py"),
    message:
        "Dissociation of {params.study}"
    script:
        "../scripts/dissociation.py"
