# Which tasks should share an encoder: gains of pairs over single tasks, and predictions of these gains.


#: runs for tables of gains: those that are probed, and those of all mixtures
SHARING_RUNS = {"sharing": STUDY.probed, "gains": STUDY.sharing_runs}


rule sharing:
    input:
        evaluations=lambda wildcards: LAYOUT.run_files(
            SHARING_RUNS[wildcards.table], "evaluation.parquet"
        ),
    output:
        result("tables/{table}.parquet"),
    log:
        log("{table}"),
    wildcard_constraints:
        table=any_of(SHARING_RUNS),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=lambda wildcards: plain(SHARING_RUNS[wildcards.table]),
        # all metrics of probed tasks, or the main one of every task
        metrics=lambda wildcards: (
            probing.metrics(LAYOUT)
            if wildcards.table == "sharing"
            else {task: every[:1] for task, every in STUDY.metrics.items()}
        ),
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/sharing.py"),
    message:
        "What tasks gain or lose by sharing an encoder"
    script:
        "../scripts/statistics/sharing.py"


rule gain_predictions:
    input:
        gains=result("tables/gains.parquet"),
        data=[LAYOUT.data(task, "train") for task in LAYOUT.compared],
        similarity=result("tables/similarity.parquet") if STUDY.similarity.measures else [],
        affinity=result("tables/affinity.parquet") if DIRECTED else [],
    output:
        predictions=result("tables/gain_predictions.parquet"),
        scores=result("tables/gain_prediction_scores.parquet"),
    log:
        log("gain_predictions"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        # with 15 measures, 20, 30 and 40 tasks take 0.3, 1 and 3 GB and, on two busy cores, a quarter of an
        # hour, one hour and ten hours per model
        mem_mb=max(4000, round(4000 * (len(LAYOUT.compared) / 40) ** 4)),
        runtime=60 + round(120 * len(STUDY.models) * (len(LAYOUT.compared) / 30) ** 6),
    params:
        study=STUDY.study,
        models=list(STUDY.models),
        tasks=LAYOUT.compared,
        metrics=STUDY.main_metrics,
        confidence=STUDY.dissociation.confidence,
        seed=STUDY.data_seed,
        code=code("statistics/gain_predictions.py"),
    message:
        "Predictions of what tasks gain from each other"
    script:
        "../scripts/statistics/gain_predictions.py"
