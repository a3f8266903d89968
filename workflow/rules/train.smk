# Fine-tuning: one encoder, one head per task.


# what method frozen learns from: the same for every mixture and seed
rule features:
    input:
        rules.encode.output.train,
    output:
        result("features/{model}/{task}.parquet"),
    log:
        log("features/{model}/{task}"),
    benchmark:
        result("benchmarks/features/{model}/{task}.tsv")
    wildcard_constraints:
        model=any_of(STUDY.models),
        task=any_of(STUDY.tasks),
    priority: 10
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        precision=STUDY.precision,
        code=code("features.py"),
    message:
        "Features of {wildcards.task} by {wildcards.model}"
    script:
        "../scripts/features.py"


rule train:
    input:
        encoded=encoded("train"),
        features=features,
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
        model=any_of(STUDY.models),
        mixture=any_of(MIXTURES),
        method=any_of(method for method in METHODS if method not in RETRAINED),
        seed=r"\d+",
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=24 * 60,
        checkpoint_seconds=round(60 * STUDY.training.checkpoint_minutes),
    params:
        study=STUDY.study,
        tasks=run_tasks,
        model=model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=train_settings,
        precision=STUDY.precision,
        code=code("train.py"),
    message:
        "Training {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/train.py"
