# Labelled texts, and their tokens for each model.


# they fetch what the hub has; on a cluster only the machine that plans may have a network
localrules:
    validation,
    data,
    encode,
    split,
    encode_split,


rule validation:
    input:
        source=source_files("validation"),
    output:
        result("data/{task}/validation.parquet"),
    log:
        log("validation/{task}"),
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
        task=task_settings("train_examples"),
        version=source_version,
        seed=STUDY.data_seed,
        code=code("validation.py"),
    message:
        "Reading validation texts of task {wildcards.task}"
    script:
        "../scripts/validation.py"


# training texts: what tasks are evaluated on that share an encoder with this one is left out
rule data:
    input:
        source=source_files("train"),
        others=evaluated_elsewhere,
    output:
        train=result("data/{task}/train.parquet"),
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
        task=task_settings(),
        leaks=leaks,
        version=source_version,
        seed=STUDY.data_seed,
        code=code("data.py"),
    message:
        "Reading training texts of task {wildcards.task}"
    script:
        "../scripts/data.py"


rule encode:
    input:
        train=rules.data.output.train,
        validation=rules.validation.output[0],
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
        data=split_base,
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
