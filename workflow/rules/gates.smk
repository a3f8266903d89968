# Ways to keep a number of heads: gates that learn which, rankings, and random heads, all from the same
# trained runs and with the same number of further steps.


# gates that learn without a number of heads in view, once for all numbers, and for each further penalty
rule learn_gates:
    input:
        unpack(BUDGETS.learning),
        tokens=INPUTS.tokens("train"),
        vocabulary=INPUTS.vocabulary,
    output:
        result(BUDGET, "state.pt"),
    log:
        log(BUDGET, "learn"),
    wildcard_constraints:
        way=any_of(BUDGETS.ways(open_ended=True)),
        kept="open.*",
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        gpu=training_gpus,
        mem_mb=memory("learn_gates", training_gpus),
        microbatches=microbatches,
        runtime=runtime("learn_gates", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        script="learn",
        study=STUDY.study,
        tasks=INPUTS.tasks,
        model=INPUTS.model_settings("source", "sha256", "pooling", "weights", "transformer"),
        version=weights_version,
        training=INPUTS.training_settings,
        trains=INPUTS.trains,
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
        vocabulary=INPUTS.vocabulary,
    output:
        gates=result(BUDGET, "gates.parquet"),
        evaluation=result(BUDGET, "evaluation.parquet"),
    log:
        log(BUDGET, "budget"),
    wildcard_constraints:
        way=any_of(ways.WAYS),
    resources:
        gpu=training_gpus,
        mem_mb=memory("budget", training_gpus),
        microbatches=microbatches,
        runtime=runtime("budget", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        script="budget",
        study=STUDY.study,
        tasks=INPUTS.tasks,
        model=INPUTS.model_settings("source", "sha256", "pooling", "weights", "transformer"),
        version=weights_version,
        training=INPUTS.training_settings,
        trains=INPUTS.trains,
        way=BUDGETS.way,
        gates=BUDGETS.settings,
        samples=BUDGETS.samples,
        beams=INPUTS.beams,
        measured=BUDGETS.measured,
        precision=STUDY.precision,
        code=code(
            "gates/budget.py",
            lambda wildcards: plugins.files([ways.WAYS[wildcards.way].function]),
        ),
    message:
        "{wildcards.way} to {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"


# like budget, but saves the model, for export and for the roles of its heads
use rule budget as budget_and_keep with:
    output:
        gates=result(BUDGET, "gates.parquet"),
        evaluation=result(BUDGET, "evaluation.parquet"),
        model=result(BUDGET, "model/model.safetensors"),
        config=result(BUDGET, "model/config.json"),
        classifiers=result(BUDGET, "model/classifiers.json"),
    wildcard_constraints:
        way=any_of(STUDY.gates.keep_models),


ruleorder: budget_and_keep > budget


# roles of the heads that a set keeps, after the further training
use rule learn_gates as attended_after with:
    input:
        model=rules.budget_and_keep.output.classifiers,
        gates=rules.budget_and_keep.output.gates,
        treebank=rules.treebank.output[0],
        targets=INPUTS.targets("validation"),
        vocabulary=INPUTS.vocabulary,
    output:
        result(BUDGET, "atlas/{of}/attended.parquet"),
    log:
        log(BUDGET, "atlas/{of}/attended"),
    wildcard_constraints:
        way=any_of(STUDY.gates.keep_models),
        of=any_of([ALL, *STUDY.tasks]),
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=memory("attended"),
        microbatches=microbatches,
        runtime=runtime("attended_after", 4 * 60),
    params:
        script="attended",
        study=STUDY.study,
        tasks=INPUTS.tasks,
        model=INPUTS.model_settings("source", "sha256", "transformer"),
        version=tokenizer_version,
        sentences=STUDY.atlas.sentences,
        translations=INPUTS.translations,
        precision="fp32",
        code=code("gates/attended.py"),
    message:
        "Words that the kept heads attend to, {wildcards.way}, {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"


use rule roles as roles_after with:
    input:
        attended=rules.attended_after.output[0],
        treebank=rules.treebank.output[0],
    output:
        result(BUDGET, "atlas/{of}/roles.parquet"),
    log:
        log(BUDGET, "atlas/{of}/roles"),
    wildcard_constraints:
        way=any_of(STUDY.gates.keep_models),
        of=any_of([ALL, *STUDY.tasks]),
    message:
        "Roles of the kept heads, {wildcards.way}, {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"


rule budgets:
    input:
        gates=lambda wildcards: BUDGETS.of_budgets("gates.parquet"),
        evaluations=lambda wildcards: BUDGETS.of_budgets("evaluation.parquet"),
    output:
        gates=result("tables/gates.parquet"),
        budgets=result("tables/budgets.parquet"),
        overlap=result("tables/overlap.parquet"),
        layers=result("tables/kept_layers.parquet"),
        kinds=result("tables/kept_kinds.parquet"),
    log:
        log("budgets"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        script="budgets",
        study=STUDY.study,
        cells=settings_of(STUDY.budgets),
        open_ended=[way for way in BUDGETS.ways(open_ended=True) if way in STUDY.gates.ways],
        metrics=lambda wildcards: {
            task: LAYOUT.metrics[task] for cell in STUDY.budgets for task in cell.run.tasks
        },
        attention=STUDY.gates.attention,
        resampling=INPUTS.settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/budgets.py"),
    message:
        "Ways to keep a number of heads, compared"
    script:
        "../scripts/statistics/{params.script}.py"


use rule budgets as kept_roles with:
    input:
        gates=lambda wildcards: BUDGETS.of_budgets("gates.parquet"),
        before=lambda wildcards: LAYOUT.of_runs(BUDGETS.runs, "atlas/roles.parquet"),
        after=BUDGETS.roles_after,
    output:
        heads=result("tables/kept_roles.parquet"),
        counts=result("tables/role_counts.parquet"),
    log:
        log("kept_roles"),
    params:
        script="kept_roles",
        study=STUDY.study,
        cells=settings_of(STUDY.budgets),
        keep_models=STUDY.gates.keep_models,
        seed=STUDY.data_seed,
        code=code("statistics/kept_roles.py"),
    message:
        "Roles of heads that are kept"
