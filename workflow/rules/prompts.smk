# The method prompted: prompts of tasks, and the frozen language model that answers them. Later rules, starting
# with importance, use these like the tokens and the model of a training run.


rule prompts:
    input:
        train=rules.data.output.train,
        validation=rules.validation.output[0],
    output:
        train=result(PROMPTS, "train.parquet"),
        validation=result(PROMPTS, "validation.parquet"),
    log:
        log(PROMPTS),
    priority: 10
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        model=job(Job.tokenizer),
        prompt=job(Job.prompt),
        version=job(versions.tokenizer),
        code=code("prompts/tokens.py"),
    message:
        "Prompts of task {wildcards.task} for {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/prompts/tokens.py"


rule prompted:
    input:
        tokens=job(files.tokens, "train"),
    output:
        model=result(RUN, "model/model.safetensors"),
        config=result(RUN, "model/config.json"),
        classifiers=result(RUN, "model/classifiers.json"),
    log:
        log(RUN, "prompted"),
    wildcard_constraints:
        method="prompted",
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("evaluate") | {"runtime": 60},
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        precision=STUDY.precision,
        code=code("prompts/model.py"),
    message:
        "Language model {wildcards.model} for {wildcards.mixture}, seed {wildcards.seed}"
    script:
        "../scripts/prompts/model.py"
