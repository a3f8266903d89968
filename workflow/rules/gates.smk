# Ways to keep a number of heads: gates that learn which, rankings, and random heads, all from the same
# trained runs and with the same number of further steps.


# gates that learn without a number of heads in view, once for all numbers
rule learn_gates:
    input:
        unpack(BUDGETS.learning),
        tokens=INPUTS.tokens("train"),
    output:
        result(WAY, "state.pt"),
    log:
        log(WAY, "learn"),
    wildcard_constraints:
        way=any_of(BUDGETS.ways(open_ended=True)),
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        gpu=training_gpus,
        mem_mb=memory("train", training_gpus),
        microbatches=microbatches,
        runtime=runtime("learn_gates", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        script="learn",
        study=STUDY.study,
        tasks=INPUTS.tasks,
        model=INPUTS.model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=INPUTS.training_settings,
        way=BUDGETS.way,
        gates=BUDGETS.settings,
        precision=STUDY.precision,
        code=code("gates/learn.py"),
    message:
        "Gates of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}: {wildcards.way}"
    script:
        "../scripts/gates/{params.script}.py"


use rule learn_gates as budget with:
    input:
        unpack(BUDGETS.pruning),
        train=INPUTS.tokens("train"),
        validation=INPUTS.tokens("validation"),
    output:
        gates=result(BUDGET, "gates.parquet"),
        evaluation=result(BUDGET, "evaluation.parquet"),
    log:
        log(BUDGET, "budget"),
    wildcard_constraints:
        way=any_of(ways.WAYS),
    resources:
        gpu=training_gpus,
        mem_mb=memory("train", training_gpus),
        microbatches=microbatches,
        runtime=runtime("budget", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        script="budget",
        study=STUDY.study,
        tasks=INPUTS.tasks,
        model=INPUTS.model_settings("source", "sha256", "pooling"),
        version=weights_version,
        training=INPUTS.training_settings,
        way=BUDGETS.way,
        gates=BUDGETS.settings,
        samples=BUDGETS.samples,
        measured=BUDGETS.measured,
        precision=STUDY.precision,
        code=code("gates/budget.py"),
    message:
        "{wildcards.way} to {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"


rule budgets:
    input:
        gates=lambda wildcards: BUDGETS.of_budgets("gates.parquet"),
        evaluations=lambda wildcards: BUDGETS.of_budgets("evaluation.parquet"),
    output:
        gates=result("tables/gates.parquet"),
        budgets=result("tables/budgets.parquet"),
        overlap=result("tables/overlap.parquet"),
    log:
        log("budgets"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        cells=settings_of(STUDY.budgets),
        metrics=lambda wildcards: {
            task: LAYOUT.metrics[task] for cell in STUDY.budgets for task in cell.run.tasks
        },
        resampling=INPUTS.settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/budgets.py"),
    message:
        "Ways to keep a number of heads, compared"
    script:
        "../scripts/statistics/budgets.py"
