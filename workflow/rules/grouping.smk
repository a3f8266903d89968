# Which tasks should share an encoder: what pairs gain over single tasks, and predictions of it.


use rule sharing as gains with:
    input:
        evaluations=run_tables(STUDY.sharing_runs, "evaluation.parquet"),
    output:
        result("tables/gains.parquet"),
    log:
        log("gains"),
    params:
        study=STUDY.study,
        runs=run_settings(STUDY.sharing_runs),
        metrics=lambda wildcards: {task: every[:1] for task, every in LAYOUT.metrics.items()},
        resampling=INPUTS.settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/sharing.py"),
    message:
        "What tasks gain from each other"


rule gain_predictions:
    input:
        gains=rules.gains.output[0],
        data=[INPUTS.data(task, "train") for task in LAYOUT.compared],
        similarity=result("tables/similarity.parquet") if STUDY.similarity.measures else [],
        affinity=(result("tables/affinity.parquet") if STUDY.similarity.asked("affinity") else []),
    output:
        predictions=result("tables/gain_predictions.parquet"),
        scores=result("tables/gain_prediction_scores.parquet"),
    log:
        log("gain_predictions"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        models=list(STUDY.models),
        tasks=LAYOUT.compared,
        metrics=LAYOUT.main_metrics,
        confidence=STUDY.dissociation.confidence,
        seed=STUDY.data_seed,
        code=code("statistics/gain_predictions.py"),
    message:
        "Predictions of what tasks gain from each other"
    script:
        "../scripts/statistics/gain_predictions.py"
