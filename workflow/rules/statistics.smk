# Scores, intervals and tests, from predictions and tables only.


rule dissociation:
    input:
        predictions=run_tables(LAYOUT.mixed, "predictions.parquet"),
        texts=job(files.validation_tables, LAYOUT.mixed),
    output:
        dissociation=result("tables/dissociation.parquet"),
        mixtures=result("tables/mixtures.parquet"),
        combined=result("tables/combined.parquet"),
        fractions=result("tables/fractions.parquet"),
        matrix_parts=result("tables/matrix_parts.parquet"),
        shared_fragility=result("tables/shared_fragility.parquet"),
        areas=result("tables/areas.parquet"),
    log:
        log("dissociation"),
    conda:
        "../../envs/analysis.yaml"
    threads: processes(LAYOUT.mixed)
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.mixed),
        sources=job(shared_texts.text_sources, LAYOUT.mixed),
        metrics=STUDY.main_metrics,
        fraction=STUDY.pruning.fraction,
        dissociation=section("dissociation", "resamples", "confidence", "distinct"),
        seed=STUDY.data_seed,
        code=code("statistics/dissociation.py"),
    message:
        "Dissociation of {params.study}"
    script:
        "../scripts/statistics/dissociation.py"


use rule dissociation as preview_dissociation with:
    input:
        predictions=run_tables(LAYOUT.preview, "predictions.parquet"),
        texts=job(files.validation_tables, LAYOUT.preview),
    output:
        dissociation=result("preview/tables/dissociation.parquet"),
        mixtures=result("preview/tables/mixtures.parquet"),
        combined=result("preview/tables/combined.parquet"),
        fractions=result("preview/tables/fractions.parquet"),
        matrix_parts=result("preview/tables/matrix_parts.parquet"),
        shared_fragility=result("preview/tables/shared_fragility.parquet"),
        areas=result("preview/tables/areas.parquet"),
    log:
        log("preview/dissociation"),
    threads: 1
    params:
        runs=run_settings(LAYOUT.preview),
        sources=job(shared_texts.text_sources, LAYOUT.preview),
    message:
        "Dissociation of the first mixture of {params.study}"


rule contrasts:
    input:
        predictions=rules.dissociation.input.predictions,
        texts=job(files.validation_tables, LAYOUT.mixed),
    output:
        result("tables/contrasts.parquet"),
    log:
        log("contrasts"),
    conda:
        "../../envs/analysis.yaml"
    threads: processes(LAYOUT.mixed)
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.mixed),
        sources=job(shared_texts.text_sources, LAYOUT.mixed),
        metrics=STUDY.main_metrics,
        pairs=LAYOUT.pairs,
        paradigms=LAYOUT.paradigms,
        parents=LAYOUT.parents,
        fraction=STUDY.pruning.fraction,
        dissociation=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/contrasts.py"),
    message:
        "Contrasts of dissociations in {params.study}"
    script:
        "../scripts/statistics/contrasts.py"


rule head_lists:
    input:
        predictions=run_tables(LAYOUT.listed, "listed.parquet"),
        texts=job(files.validation_tables, LAYOUT.listed),
    output:
        result("tables/head_lists.parquet"),
    log:
        log("head_lists"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.listed),
        sources=job(shared_texts.text_sources, LAYOUT.listed),
        metrics=STUDY.main_metrics,
        dissociation=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/head_lists.py"),
    message:
        "Verdicts on listed heads"
    script:
        "../scripts/statistics/head_lists.py"


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
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=STUDY.study,
        paradigms=LAYOUT.paradigms,
        method=STUDY.correlated,
        seed=STUDY.data_seed,
        code=code("statistics/correlation.py"),
    message:
        "Correlation of dissociation with task similarity"
    script:
        "../scripts/statistics/correlation.py"


rule improvement:
    input:
        evaluations=run_tables(STUDY.iat_runs, "evaluation.parquet"),
    output:
        scores=result("tables/iat.parquet"),
        improvement=result("tables/improvement.parquet"),
    log:
        log("improvement"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(STUDY.iat_runs),
        variants=[plain(variant) for variant in STUDY.variants.values()],
        rates=section("training", "warmup", "decay")
        | {"learning_rate": STUDY.learning_rate, "peak": STUDY.rewarmed_peak},
        metrics=STUDY.compared_metrics,
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/improvement.py"),
    message:
        "Scores of every variant of training in {params.study}, and improvement by IAT"
    script:
        "../scripts/statistics/improvement.py"


use rule dissociation as iat_dissociation with:
    input:
        predictions=run_tables(LAYOUT.before_and_after, "predictions.parquet"),
        texts=job(files.validation_tables, LAYOUT.before_and_after),
    output:
        dissociation=result("tables/iat_dissociation.parquet"),
        mixtures=result("tables/iat_mixtures.parquet"),
        combined=result("tables/iat_combined.parquet"),
        fractions=result("tables/iat_fractions.parquet"),
        matrix_parts=result("tables/iat_matrix_parts.parquet"),
        shared_fragility=result("tables/iat_shared_fragility.parquet"),
        areas=result("tables/iat_areas.parquet"),
    log:
        log("iat_dissociation"),
    params:
        runs=run_settings(LAYOUT.before_and_after),
        sources=job(shared_texts.text_sources, LAYOUT.before_and_after),
    message:
        "Dissociation of {params.study} before and after IAT"


rule specialization:
    input:
        predictions=rules.iat_dissociation.input.predictions,
        texts=job(files.validation_tables, LAYOUT.before_and_after),
    output:
        result("tables/specialization.parquet"),
    log:
        log("specialization"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.before_and_after),
        sources=job(shared_texts.text_sources, LAYOUT.before_and_after),
        metrics=STUDY.main_metrics,
        before=STUDY.plain_method,
        fraction=STUDY.pruning.fraction,
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/specialization.py"),
    message:
        "Specialization of heads in {params.study} before and after IAT"
    script:
        "../scripts/statistics/specialization.py"


rule transfer_scores:
    input:
        [
            result("runs", run.path, "transfer", f"{task}.parquet")
            for run in STUDY.transfer_runs
            for task in STUDY.transfer.tasks
        ],
    output:
        scores=result("tables/transfer.parquet"),
        summary=result("tables/transfer_summary.parquet"),
    log:
        log("transfer_scores"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=run_settings(STUDY.transfer_runs),
        tasks=STUDY.transfer.tasks,
        mixtures={mixture: list(STUDY.tasks_by_mixture[mixture]) for mixture in STUDY.iat.mixtures},
        confidence=STUDY.dissociation.confidence,
        code=code("statistics/transfer_scores.py"),
    message:
        "Scores of few-shot transfer in {params.study}"
    script:
        "../scripts/statistics/transfer_scores.py"
