# Pruned runs: a pruning method closes heads, most often of a trained run, before or while the run trains. All
# methods that start alike train for equally many steps.


# Open-ended methods learn gates without a target number of heads. One job serves all numbers: the rule
# pruned_run keeps as many heads as requested. Each of `gates.penalties` has its own job.
rule learn_gates:
    input:
        unpack(job(pruned.start)),
        tokens=job(files.tokens, "train"),
        vocabulary=job(files.vocabulary),
    output:
        result(PRUNED_RUN, "state.pt"),
    log:
        log(PRUNED_RUN, "learn"),
    wildcard_constraints:
        pruning_method=any_of(pruned.open_ended()),
        kept="open.*",
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("learn_gates"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        training=job(Job.training),
        trains=job(Job.trains),
        method=job(pruned.method),
        gates=job(pruned.gates),
        fraction=lambda wildcards: kept_fraction(wildcards.kept),
        precision=STUDY.precision,
        code=code("gates/learn.py"),
    message:
        "Gates of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}: {wildcards.pruning_method}"
    script:
        "../scripts/gates/learn.py"


rule pruned_run:
    input:
        unpack(job(pruned.inputs)),
        tokens=job(files.tokens, "train"),
        validation=job(files.tokens, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        gates=result(PRUNED_RUN, "gates.parquet"),
        evaluation=result(PRUNED_RUN, "evaluation.parquet"),
    log:
        log(PRUNED_RUN, "pruned_run"),
    wildcard_constraints:
        pruning_method=any_of(pruning_methods.PRUNING_METHODS),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: training_threads
    resources:
        **requests("pruned_run"),
        checkpoint_seconds=CHECKPOINT_SECONDS,
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.weights),
        training=job(Job.training),
        trains=job(Job.trains),
        method=job(pruned.method),
        gates=job(pruned.gates),
        fraction=lambda wildcards: kept_fraction(wildcards.kept),
        samples=job(pruned.samples),
        beams=job(Job.beams),
        measured=job(pruned.measured),
        precision=STUDY.precision,
        code=code(
            "gates/pruned_run.py",
            lambda each: plugins.roots([each.pruning_method.function]),
        ),
    message:
        "{wildcards.pruning_method} to {wildcards.kept} of the heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/gates/pruned_run.py"


# The same for methods in `gates.keep_models`, whose models are also saved, for export and the roles of their
# heads.
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


# where the kept heads attend after further training, for their roles
rule attended_after:
    input:
        model=rules.pruned_run_and_keep.output.classifiers,
        gates=rules.pruned_run_and_keep.output.gates,
        treebank=rules.treebank.output[0],
        targets=job(files.targets, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        result(PRUNED_RUN, "atlas/{kept_for}/attended.parquet"),
    log:
        log(PRUNED_RUN, "atlas/{kept_for}/attended"),
    wildcard_constraints:
        pruning_method=any_of(STUDY.gates.keep_models),
        kept_for=any_of([ALL, *STUDY.tasks]),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("attended"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.tokenizer),
        sentences=STUDY.atlas.sentences,
        translations=job(Job.translations),
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
        gates=run_tables(STUDY.pruned_runs, "gates.parquet"),
        evaluations=run_tables(STUDY.pruned_runs, "evaluation.parquet"),
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
        open_ended=[name for name in pruned.open_ended() if name in STUDY.gates.pruning_methods],
        metrics=lambda wildcards: {
            task: STUDY.compared_metrics[task]
            for pruned in STUDY.pruned_runs
            for task in pruned.run.tasks
        },
        attention=STUDY.gates.attention,
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/gate_tables.py"),
    message:
        "Pruning methods, compared"
    script:
        "../scripts/statistics/gate_tables.py"


rule kept_roles:
    input:
        gates=run_tables(STUDY.pruned_runs, "gates.parquet"),
        before=lambda wildcards: pruned.roles_before(LAYOUT),
        after=lambda wildcards: pruned.roles_after(LAYOUT),
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
