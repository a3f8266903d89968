# Head importance: the gradient of the loss with respect to a gate on the head.


rule importance:
    input:
        model=rules.train.output.model,
        heads=rules.train.output.heads,
        encoded=encoded("train"),
    output:
        result(RUN, "importance.parquet"),
    log:
        log(RUN, "importance"),
    benchmark:
        result("benchmarks", RUN, "importance.tsv")
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        tasks=run_tasks,
        samples=STUDY.importance.samples,
        precision=STUDY.precision,
        code=code("importance.py"),
    message:
        "Head importance of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/importance.py"


rule reliability:
    input:
        [result("runs", run.path, "importance.parquet") for run in STUDY.runs],
    output:
        result("tables/reliability.parquet"),
    log:
        log("reliability"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=[plain(run) for run in STUDY.runs],
        fraction=STUDY.pruning.fraction,
        code=code("reliability.py"),
    message:
        "Reliability of head importance, within runs and between seeds"
    script:
        "../scripts/reliability.py"
