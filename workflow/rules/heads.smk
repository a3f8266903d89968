# Importance of attention heads, its reliability, and pruning by it (IAP). A cluster runs importance and pruning
# of a run in one job, apart from training, since a failed group is repeated as a whole.


rule importance:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "train"),
    output:
        result(RUN, "importance.parquet"),
    log:
        log(RUN, "importance"),
    priority: larger_mixtures_first
    group:
        "heads"
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("importance"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        samples=STUDY.importance.samples,
        precision=STUDY.precision,
        code=code("heads/importance.py"),
    message:
        "Head importance of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/heads/importance.py"


rule reliability:
    input:
        run_tables(STUDY.runs, "importance.parquet"),
    output:
        result("tables/reliability.parquet"),
    log:
        log("reliability"),
    conda:
        "../../envs/analysis.yaml"
    threads: processes(STUDY.runs)
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=run_settings(STUDY.runs),
        fraction=STUDY.pruning.fraction,
        code=code("heads/reliability.py"),
    message:
        "Reliability of head importance, within runs, between seeds, tasks and methods"
    script:
        "../scripts/heads/reliability.py"


rule prune:
    input:
        model=rules.train.output.classifiers,
        importance=rules.importance.output[0],
        tokens=job(files.tokens, "validation"),
    output:
        pruning=result(RUN, "pruning.parquet"),
        predictions=result(RUN, "predictions.parquet"),
    log:
        log(RUN, "prune"),
    priority: larger_mixtures_first
    group:
        "heads"
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("prune"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        metrics=job(Job.metrics),
        beams=job(Job.beams),
        pruning=section(
            "pruning",
            "fraction",
            "fractions",
            "heads",
            "draws",
            "draw_examples",
            "ablation",
            "bottom",
            "probabilities",
        ),
        precision=STUDY.precision,
        code=code("heads/prune.py"),
    message:
        "Pruning {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/heads/prune.py"


# heads that the config lists for a model, instead of a task's own
rule listed:
    input:
        model=rules.train.output.classifiers,
        importance=rules.importance.output[0],
        tokens=job(files.tokens, "validation"),
    output:
        result(RUN, "listed.parquet"),
    log:
        log(RUN, "listed"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("listed"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        lists=job(Job.head_lists),
        draws=STUDY.list_draws,
        ablation=STUDY.pruning.ablation,
        precision=STUDY.precision,
        code=code("heads/listed.py"),
    message:
        "Pruning listed heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/heads/listed.py"
