# Pruned runs: a pruning method closes heads of a trained run, which is then trained for the same number of
# steps with every method.


# gates that learn without a target number of heads: once for all numbers, and for each further penalty
rule learn_gates:
    input:
        unpack(PRUNED_RUNS.learning),
        tokens=INPUTS.tokens("train"),
        vocabulary=INPUTS.vocabulary,
    output:
        result(PRUNED_RUN, "state.pt"),
    log:
        log(PRUNED_RUN, "learn"),
    wildcard_constraints:
        pruning_method=any_of(PRUNED_RUNS.methods(open_ended=True)),
        kept="open.*",
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("learn_gates", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=SETTINGS.tasks,
        model=SETTINGS.model_settings("source", "sha256", "pooling", "weights", "transformer"),
        version=weights_version,
        training=SETTINGS.training_settings,
        trains=SETTINGS.trains,
        method=PRUNED_RUNS.method,
        gates=PRUNED_RUNS.settings,
        precision=STUDY.precision,
        code=code("gates/learn.py"),
    message:
        "Gates of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}: {wildcards.pruning_method}"
    script:
        "../scripts/gates/learn.py"


rule pruned_run:
    input:
        unpack(PRUNED_RUNS.pruning),
        tokens=INPUTS.tokens("train"),
        validation=INPUTS.tokens("validation"),
        vocabulary=INPUTS.vocabulary,
    output:
        gates=result(PRUNED_RUN, "gates.parquet"),
        evaluation=result(PRUNED_RUN, "evaluation.parquet"),
    log:
        log(PRUNED_RUN, "pruned_run"),
    wildcard_constraints:
        pruning_method=any_of(pruning_methods.PRUNING_METHODS),
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("pruned_run", 12 * 60),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=SETTINGS.tasks,
        model=SETTINGS.model_settings("source", "sha256", "pooling", "weights", "transformer"),
        version=weights_version,
        training=SETTINGS.training_settings,
        trains=SETTINGS.trains,
        method=PRUNED_RUNS.method,
        gates=PRUNED_RUNS.settings,
        samples=PRUNED_RUNS.samples,
        beams=SETTINGS.beams,
        measured=PRUNED_RUNS.measured,
        precision=STUDY.precision,
        code=code(
            "gates/pruned_run.py",
            lambda wildcards: plugins.roots(
                [pruning_methods.PRUNING_METHODS[wildcards.pruning_method].function]
            ),
        ),
    message:
        "{wildcards.pruning_method} to {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/gates/pruned_run.py"


# like pruned_run, but saves the model, for export and for the roles of its heads
use rule pruned_run as pruned_run_and_keep with:
    output:
        gates=result(PRUNED_RUN, "gates.parquet"),
        evaluation=result(PRUNED_RUN, "evaluation.parquet"),
        model=result(PRUNED_RUN, "model/model.safetensors"),
        config=result(PRUNED_RUN, "model/config.json"),
        classifiers=result(PRUNED_RUN, "model/classifiers.json"),
    wildcard_constraints:
        pruning_method=any_of(STUDY.gates.keep_models),


ruleorder: pruned_run_and_keep > pruned_run


# roles of the kept heads after the further training
rule attended_after:
    input:
        model=rules.pruned_run_and_keep.output.classifiers,
        gates=rules.pruned_run_and_keep.output.gates,
        treebank=rules.treebank.output[0],
        targets=INPUTS.targets("validation"),
        vocabulary=INPUTS.vocabulary,
    output:
        result(PRUNED_RUN, "atlas/{kept_for}/attended.parquet"),
    log:
        log(PRUNED_RUN, "atlas/{kept_for}/attended"),
    wildcard_constraints:
        pruning_method=any_of(STUDY.gates.keep_models),
        kept_for=any_of([ALL, *STUDY.tasks]),
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("attended", 4 * 60),
    params:
        study=STUDY.study,
        tasks=SETTINGS.tasks,
        model=SETTINGS.model_settings("source", "sha256", "transformer"),
        version=tokenizer_version,
        sentences=STUDY.atlas.sentences,
        translations=SETTINGS.translations,
        precision="fp32",
        code=code("gates/attended.py"),
    message:
        "Words that the kept heads attend to, {wildcards.pruning_method}, {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/gates/attended.py"


use rule roles as roles_after with:
    input:
        attended=rules.attended_after.output[0],
        treebank=rules.treebank.output[0],
    output:
        result(PRUNED_RUN, "atlas/{kept_for}/roles.parquet"),
    log:
        log(PRUNED_RUN, "atlas/{kept_for}/roles"),
    wildcard_constraints:
        pruning_method=any_of(STUDY.gates.keep_models),
        kept_for=any_of([ALL, *STUDY.tasks]),
    message:
        "Roles of the kept heads, {wildcards.pruning_method}, {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"


rule gate_tables:
    input:
        gates=lambda wildcards: PRUNED_RUNS.files("gates.parquet"),
        evaluations=lambda wildcards: PRUNED_RUNS.files("evaluation.parquet"),
    output:
        gates=result("tables/gates.parquet"),
        budgets=result("tables/budgets.parquet"),
        overlap=result("tables/overlap.parquet"),
        layers=result("tables/kept_layers.parquet"),
        kinds=result("tables/kept_kinds.parquet"),
    log:
        log("gate_tables"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        pruned_runs=run_settings(STUDY.pruned_runs),
        open_ended=[
            name
            for name in PRUNED_RUNS.methods(open_ended=True)
            if name in STUDY.gates.pruning_methods
        ],
        metrics=lambda wildcards: {
            task: LAYOUT.metrics[task] for pruned in STUDY.pruned_runs for task in pruned.run.tasks
        },
        attention=STUDY.gates.attention,
        resampling=SETTINGS.settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/gate_tables.py"),
    message:
        "Pruning methods, compared"
    script:
        "../scripts/statistics/gate_tables.py"


rule kept_roles:
    input:
        gates=lambda wildcards: PRUNED_RUNS.files("gates.parquet"),
        before=lambda wildcards: LAYOUT.run_files(PRUNED_RUNS.runs, "atlas/roles.parquet"),
        after=PRUNED_RUNS.roles_after,
    output:
        heads=result("tables/kept_roles.parquet"),
        counts=result("tables/role_counts.parquet"),
    log:
        log("kept_roles"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        pruned_runs=run_settings(STUDY.pruned_runs),
        keep_models=STUDY.gates.keep_models,
        seed=STUDY.data_seed,
        code=code("statistics/kept_roles.py"),
    message:
        "Roles of heads that are kept"
    script:
        "../scripts/statistics/kept_roles.py"
