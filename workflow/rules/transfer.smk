# Few-shot transfer: tasks that no encoder has seen, from a few examples.


rule draws:
    input:
        rules.data.output.train,
    output:
        result("transfer/{task}.parquet"),
    log:
        log("transfer/{task}"),
    wildcard_constraints:
        task=any_of(STUDY.transfer.tasks),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        study=STUDY.study,
        samples=STUDY.transfer.samples,
        draws=STUDY.transfer.draws,
        seed=STUDY.data_seed,
        code=code("draws.py"),
    message:
        "Few-shot samples of {wildcards.task}"
    script:
        "../scripts/draws.py"


rule transfer:
    input:
        model=source_model,
        draws=rules.draws.output[0],
        train=rules.encode.output.train,
        validation=rules.encode.output.validation,
    output:
        result(RUN, "transfer/{task}.parquet"),
    log:
        log(RUN, "transfer/{task}"),
    benchmark:
        result("benchmarks", RUN, "transfer/{task}.tsv")
    wildcard_constraints:
        mixture=any_of(dict.fromkeys(run.mixture for run in STUDY.transfer_runs)),
        method=any_of(dict.fromkeys(run.method for run in STUDY.transfer_runs)),
        seed=r"\d+",
        task=any_of(STUDY.transfer.tasks),
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
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        metrics=lambda wildcards: TASK_METRICS[wildcards.task],
        transfer=settings(
            "transfer",
            *("samples", "draws", "tuning", "steps", "batch_size", "learning_rate", "penalty"),
        ),
        training=settings("training", "clip", "learning_rate", "warmup", "weight_decay"),
        precision=STUDY.precision,
        code=code("transfer.py"),
    message:
        "Transfer to {wildcards.task} of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/transfer.py"


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
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in STUDY.transfer_runs],
        tasks=STUDY.transfer.tasks,
        mixtures={mixture: list(MIXTURES[mixture]) for mixture in STUDY.iat.mixtures},
        confidence=STUDY.dissociation.confidence,
        code=code("transfer_scores.py"),
    message:
        "Scores of few-shot transfer in {params.study}"
    script:
        "../scripts/transfer_scores.py"


rule figure_transfer:
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
    wildcard_constraints:
        model=any_of(STUDY.models),
        task=any_of(STUDY.transfer.tasks),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        metrics=TASK_METRICS,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_transfer.py"),
    message:
        "Figure transfer.{wildcards.model}.{wildcards.task}"
    script:
        "../scripts/figure_transfer.py"
