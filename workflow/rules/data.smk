# Labelled texts, and their tokens for each model.


# they fetch what the hub has; on a cluster only the machine that plans may have a network
localrules:
    data,
    encode,
    split,
    encode_split,


rule data:
    input:
        source_files,
    output:
        train=result("data/{task}/train.parquet"),
        validation=result("data/{task}/validation.parquet"),
    log:
        log("data/{task}"),
    wildcard_constraints:
        task=any_of(STUDY.tasks),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        task=task_settings,
        parent=lambda wildcards: STUDY.tasks[wildcards.task].pairs_of,
        version=source_version,
        seed=STUDY.data_seed,
        code=code("data.py"),
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
    log:
        log("encode/{model}/{task}"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        task=any_of(STUDY.tasks),
    priority: 10
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        model=model_settings("source", "max_length"),
        version=tokenizer_version,
        code=code("encode.py"),
    message:
        "Tokens of task {wildcards.task} for {wildcards.model}"
    script:
        "../scripts/encode.py"


# a split beside training and validation: kind is `further`, labelled, or `test`
rule split:
    input:
        split_files,
        train=rules.data.output.train,
    output:
        result("data/{task}/{kind}/{name}.parquet"),
    log:
        log("data/{task}/{kind}/{name}"),
    wildcard_constraints:
        task=any_of(STUDY.tasks),
        kind="further|test",
        name="[^/]+",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        task=split_settings,
        version=source_version,
        seed=STUDY.data_seed,
        code=code("split.py"),
    message:
        "Reading {wildcards.name} of task {wildcards.task}"
    script:
        "../scripts/split.py"


use rule encode as encode_split with:
    input:
        rules.split.output,
    output:
        result("encoded/{model}/{task}/{kind}/{name}.parquet"),
    log:
        log("encode/{model}/{task}/{kind}/{name}"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        task=any_of(STUDY.tasks),
        kind="further|test",
        name="[^/]+",
    message:
        "Tokens of {wildcards.name} of task {wildcards.task} for {wildcards.model}"
