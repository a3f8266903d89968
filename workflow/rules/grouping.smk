# Which tasks should share an encoder: gains of pairs over single tasks, and predictions of these gains.


use rule sharing as gains with:
    input:
        evaluations=run_tables(STUDY.sharing_runs, "evaluation.parquet"),
    output:
        result("tables/gains.parquet"),
    log:
        log("gains"),
    params:
        runs=run_settings(STUDY.sharing_runs),
        metrics={task: [metric] for task, metric in STUDY.main_metrics.items()},
    message:
        "What tasks gain or lose in pairs"


rule gain_predictions:
    input:
        gains=rules.gains.output[0],
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
