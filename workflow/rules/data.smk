# Labelled texts, and their tokens for each model.


rule data:
    input:
        source_files,
    output:
        train=result("data/{task}/train.parquet"),
        validation=result("data/{task}/validation.parquet"),
    params:
        study=STUDY.study,
        task=task_settings,
        parent=lambda wildcards: STUDY.tasks[wildcards.task].pairs_of,
        version=source_version,
        seed=STUDY.data_seed,
        code=code("data.py"),
    wildcard_constraints:
        task=any_of(STUDY.tasks),
    log:
        log("data/{task}"),
    priority: 10
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    conda:
        "../../envs/analysis.yaml"
    message:
        "Reading task {wildcards.task}"
    script:
        "../scripts/data.py"


rule encode:
    input:
        rules.data.output,
    output:
        train=result("encoded/{model}/{task}/train.parquet"),
        validation=result("encoded/{model}/{task}/validation.parquet"),
    params:
        study=STUDY.study,
        model=model_settings("source", "max_length"),
        code=code("encode.py"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        task=any_of(STUDY.tasks),
    log:
        log("encode/{model}/{task}"),
    priority: 10
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    conda:
        "../../envs/train.yaml"
    message:
        "Tokens of task {wildcards.task} for {wildcards.model}"
    script:
        "../scripts/encode.py"
