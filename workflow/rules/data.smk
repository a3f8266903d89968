# Labelled texts, their tokens for each model, and few-shot draws.


# these rules download from the hub; on a cluster, only the submitting machine may have a network
localrules:
    validation,
    data,
    tokenize,
    split,
    tokenize_split,


rule validation:
    input:
        source=job(files.source, "validation"),
    output:
        result("data/{task}/validation.parquet"),
    log:
        log("validation/{task}"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        task=job(Job.task_settings, "train_examples"),
        version=job(versions.source),
        seed=STUDY.data_seed,
        code=code("data/validation.py"),
    message:
        "Reading validation texts of task {wildcards.task}"
    script:
        "../scripts/data/validation.py"


# training texts, except those that other tasks of the same encoder are evaluated on
rule data:
    input:
        source=job(files.source, "train"),
        others=job(files.evaluated_elsewhere),
    output:
        train=result("data/{task}/train.parquet"),
    log:
        log("data/{task}"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        task=job(Job.task_settings),
        leaks=job(shared_texts.leaks),
        version=job(versions.source),
        seed=STUDY.data_seed,
        code=code("data/training.py"),
    message:
        "Reading training texts of task {wildcards.task}"
    script:
        "../scripts/data/training.py"


# for a model that the config describes by `transformer`
rule vocabulary:
    input:
        job(files.training_tables),
    output:
        result("vocabulary/{model}.parquet"),
    log:
        log("vocabulary/{model}"),
    priority: 10
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        vocabulary=job(Job.vocabulary),
        code=code("data/vocabulary.py"),
    message:
        "Vocabulary of {wildcards.model}"
    script:
        "../scripts/data/vocabulary.py"


rule tokenize:
    input:
        texts=[rules.data.output.train, rules.validation.output[0]],
        vocabulary=job(files.vocabulary),
    output:
        train=result("tokens/{model}/{task}/train.parquet"),
        validation=result("tokens/{model}/{task}/validation.parquet"),
    log:
        log("tokenize/{model}/{task}"),
    priority: 10
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        model=job(Job.tokenizer),
        version=job(versions.tokenizer),
        code=code("data/tokenize.py"),
    message:
        "Tokens of task {wildcards.task} for {wildcards.model}"
    script:
        "../scripts/data/tokenize.py"


# splits besides training and validation; `section` is `further` (labelled) or `test`
rule split:
    input:
        data=job(files.split_base),
    output:
        result("data/{task}/{section}/{name}.parquet"),
    log:
        log("data/{task}/{section}/{name}"),
    wildcard_constraints:
        section="further|test",
        name="[^/]+",
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        task=job(Job.split_settings),
        version=job(versions.source),
        seed=STUDY.data_seed,
        code=code("data/split.py"),
    message:
        "Reading {wildcards.name} of task {wildcards.task}"
    script:
        "../scripts/data/split.py"


use rule tokenize as tokenize_split with:
    input:
        texts=rules.split.output,
        vocabulary=job(files.vocabulary),
    output:
        result("tokens/{model}/{task}/{section}/{name}.parquet"),
    log:
        log("tokenize/{model}/{task}/{section}/{name}"),
    wildcard_constraints:
        section="further|test",
        name="[^/]+",
    message:
        "Tokens of {wildcards.name} of task {wildcards.task} for {wildcards.model}"


rule few_shot:
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
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        study=STUDY.study,
        samples=STUDY.transfer.samples,
        draws=STUDY.transfer.draws,
        seed=STUDY.data_seed,
        code=code("data/few_shot.py"),
    message:
        "Few-shot samples of {wildcards.task}"
    script:
        "../scripts/data/few_shot.py"
