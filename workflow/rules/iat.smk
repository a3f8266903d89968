# Important attention-head training: the end of multi-task training again, each task moving its own heads.


# as every training, but the state before its end is kept
use rule train as train_and_keep with:
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        heads=result(RUN, "model/heads.json"),
        history=result(RUN, "training.parquet"),
        trunk=result(RUN, "trunk.pt"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(BASES),
        seed=r"\d+",
    params:
        study=STUDY.study,
        tasks=run_tasks,
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=train_settings,
        reserve=STUDY.iat.reserve,
        precision=STUDY.precision,
        code=code("train.py"),


rule branch:
    input:
        trunk=rules.train_and_keep.output.trunk,
        encoded=encoded("train"),
    output:
        state=result(RUN, "branch/{delta}/state.pt"),
        importance=result(RUN, "branch/{delta}/importance.parquet"),
    log:
        log(RUN, "branch/{delta}"),
    benchmark:
        result("benchmarks", RUN, "branch/{delta}.tsv")
    wildcard_constraints:
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(BASES),
        delta=r"[\d.e-]+",
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=8 * 60,
        checkpoint_seconds=round(60 * STUDY.training.checkpoint_minutes),
    params:
        study=STUDY.study,
        tasks=run_tasks,
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=train_settings,
        samples=STUDY.importance.samples,
        precision=STUDY.precision,
        code=code("branch.py"),
    message:
        "{wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}, before the last {wildcards.delta} of its training"
    script:
        "../scripts/branch.py"


rule retrain:
    input:
        state=branch_of("state.pt"),
        importance=branch_of("importance.parquet"),
        encoded=encoded("train"),
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        heads=result(RUN, "model/heads.json"),
        history=result(RUN, "training.parquet"),
    log:
        log(RUN, "train"),
    benchmark:
        result("benchmarks", RUN, "train.tsv")
    wildcard_constraints:
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(RETRAINED),
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=12 * 60,
        checkpoint_seconds=round(60 * STUDY.training.checkpoint_minutes),
    params:
        study=STUDY.study,
        tasks=run_tasks,
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=train_settings,
        variant=variant_settings,
        projections=STUDY.iat.projections,
        precision=STUDY.precision,
        code=code("retrain.py"),
    message:
        "Training {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/retrain.py"


ruleorder: train_and_keep > retrain > train


rule evaluate:
    input:
        model=result(RUN, "model/model.safetensors"),
        heads=result(RUN, "model/heads.json"),
        encoded=encoded("validation"),
        further=more_splits("further", "encoded/{model}"),
    output:
        result(RUN, "evaluation.parquet"),
    log:
        log(RUN, "evaluate"),
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=60,
    params:
        study=STUDY.study,
        tasks=run_tasks,
        further=lambda wildcards: more_names("further", wildcards.mixture),
        precision=STUDY.precision,
        code=code("evaluate.py"),
    message:
        "Evaluating {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/evaluate.py"


rule iat_scores:
    input:
        [result("runs", run.path, "evaluation.parquet") for run in STUDY.iat_runs],
    output:
        result("tables/iat.parquet"),
    log:
        log("iat_scores"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in STUDY.iat_runs],
        variants=[plain(variant) for variant in STUDY.variants],
        metrics=TASK_METRICS,
        code=code("iat_scores.py"),
    message:
        "Scores of every way of training in {params.study}"
    script:
        "../scripts/iat_scores.py"


rule improvement:
    input:
        scores=rules.iat_scores.output[0],
        evaluations=rules.iat_scores.input,
    output:
        result("tables/improvement.parquet"),
    log:
        log("improvement"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in STUDY.iat_runs],
        variants=[plain(variant) for variant in STUDY.variants],
        metrics=TASK_METRICS,
        resampling=settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("improvement.py"),
    message:
        "Improvement by IAT over multi-task training in {params.study}"
    script:
        "../scripts/improvement.py"


use rule dissociation as iat_dissociation with:
    input:
        [result("runs", run.path, "predictions.parquet") for run in BEFORE_AND_AFTER],
    output:
        dissociation=result("tables/iat_dissociation.parquet"),
        mixtures=result("tables/iat_mixtures.parquet"),
        combined=result("tables/iat_combined.parquet"),
        fractions=result("tables/iat_fractions.parquet"),
        areas=result("tables/iat_areas.parquet"),
    log:
        log("iat_dissociation"),
    params:
        study=STUDY.study,
        runs=[plain(run) for run in BEFORE_AND_AFTER],
        metrics={task: metrics[0] for task, metrics in TASK_METRICS.items()},
        pruning=settings("pruning", "fraction", "fractions"),
        dissociation=settings("dissociation", "resamples", "confidence", "distinct"),
        seed=STUDY.data_seed,
        code=code("dissociation.py"),
    message:
        "Dissociation of {params.study} before and after IAT"


rule specialization:
    input:
        rules.iat_dissociation.input,
    output:
        result("tables/specialization.parquet"),
    log:
        log("specialization"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in BEFORE_AND_AFTER],
        metrics={task: metrics[0] for task, metrics in TASK_METRICS.items()},
        before="tuned",
        fraction=STUDY.pruning.fraction,
        resampling=settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("specialization.py"),
    message:
        "Whether heads of {params.study} dissociate more after IAT"
    script:
        "../scripts/specialization.py"
