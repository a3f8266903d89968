# Fine-tuning, few-shot transfer, and important attention-head training (IAT), which repeats the end of
# fine-tuning while each task updates only its own heads.


# vectors for training the classifiers of the method frozen, the same for every mixture and seed
rule features:
    input:
        rules.tokenize.output.train,
    output:
        result("features/{model}/{task}.parquet"),
    log:
        log("features/{model}/{task}"),
    priority: 10
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("features"),
    params:
        study=STUDY.study,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        precision=STUDY.precision,
        code=code("training/features.py"),
    message:
        "Features of {wildcards.task} by {wildcards.model}"
    script:
        "../scripts/training/features.py"


rule train:
    input:
        tokens=job(files.tokens, "train"),
        features=job(files.features),
        vocabulary=job(files.vocabulary),
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        classifiers=result(RUN, "model/classifiers.json"),
        history=result(RUN, "training.parquet"),
    log:
        log(RUN, "train"),
    wildcard_constraints:
        method=any_of(LAYOUT.trained),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("train"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        training=job(Job.training),
        trains=job(Job.trains),
        precision=STUDY.precision,
        code=code("training/train.py"),
    message:
        "Training {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/training/train.py"


# like train, but keeps the state before the end, which IAT continues
use rule train as train_and_keep with:
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        classifiers=result(RUN, "model/classifiers.json"),
        history=result(RUN, "training.parquet"),
        trunk=result(RUN, "trunk.pt"),
    wildcard_constraints:
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(STUDY.continued),
    params:
        reserve=STUDY.iat.reserve,


rule branch:
    input:
        trunk=rules.train_and_keep.output.trunk,
        tokens=job(files.tokens, "train"),
    output:
        state=result(RUN, "branch/{delta}/state.pt"),
        importance=result(RUN, "branch/{delta}/importance.parquet"),
    log:
        log(RUN, "branch/{delta}"),
    wildcard_constraints:
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(STUDY.continued),
        delta=r"[\d.e-]+",
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("branch"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        training=job(Job.training),
        trains=job(Job.trains),
        samples=STUDY.importance.samples,
        precision=STUDY.precision,
        code=code("training/branch.py"),
    message:
        "Branch of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}, before the last {wildcards.delta} of training"
    script:
        "../scripts/training/branch.py"


rule retrain:
    input:
        state=job(files.branch, "state.pt"),
        importance=job(files.branch, "importance.parquet"),
        rankings=job(files.owner_rankings),
        tokens=job(files.tokens, "train"),
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        classifiers=result(RUN, "model/classifiers.json"),
        history=result(RUN, "training.parquet"),
    log:
        log(RUN, "train"),
    wildcard_constraints:
        mixture=any_of(STUDY.iat.mixtures),
        method=any_of(STUDY.retrained),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("retrain"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        training=job(Job.training),
        trains=job(Job.trains),
        variant=job(Job.variant_settings),
        projections=STUDY.iat.projections,
        precision=STUDY.precision,
        code=code("training/retrain.py", job_code.restriction),
    message:
        "Training {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/training/retrain.py"


ruleorder: train_and_keep > retrain > train


rule evaluate:
    input:
        model=result(RUN, "model/classifiers.json"),
        tokens=job(files.tokens, "validation"),
        further=job(files.more_splits, "further", "tokens/{model}"),
    output:
        result(RUN, "evaluation.parquet"),
    log:
        log(RUN, "evaluate"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("evaluate"),
    params:
        study=STUDY.study,
        metrics=job(Job.main_metrics),
        further=job(Job.names, "further"),
        beams=job(Job.beams),
        precision=STUDY.precision,
        code=code("training/evaluate.py"),
    message:
        "Evaluating {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/training/evaluate.py"


rule transfer:
    input:
        model=job(files.source_model),
        draws=rules.few_shot.output[0],
        train=rules.tokenize.output.train,
        validation=rules.tokenize.output.validation,
    output:
        result(RUN, "transfer/{task}.parquet"),
    log:
        log(RUN, "transfer/{task}"),
    wildcard_constraints:
        mixture=any_of(dict.fromkeys(run.mixture for run in STUDY.transfer_runs)),
        method=any_of(dict.fromkeys(run.method for run in STUDY.transfer_runs)),
        task=any_of(STUDY.transfer.tasks),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("transfer"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        metrics=lambda wildcards: STUDY.compared_metrics[wildcards.task],
        transfer=section(
            "transfer",
            *("samples", "draws", "tuning", "steps", "batch_size", "learning_rate", "penalty"),
        ),
        training=job(Job.transfer_training),
        precision=STUDY.precision,
        code=code("training/transfer.py"),
    message:
        "Transfer to {wildcards.task} of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/training/transfer.py"
