# Important attention-head pruning: every task evaluated under every mask.


rule prune:
    input:
        model=rules.train.output.model,
        heads=rules.train.output.heads,
        importance=rules.importance.output[0],
        encoded=encoded("validation"),
    output:
        pruning=result(RUN, "pruning.parquet"),
        predictions=result(RUN, "predictions.parquet"),
    log:
        log(RUN, "prune"),
    benchmark:
        result("benchmarks", RUN, "prune.tsv")
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=larger,
        parts=parts,
        runtime=8 * 60,
    params:
        study=STUDY.study,
        metrics=run_metrics,
        pruning=settings("pruning", "fraction", "fractions", "draws", "draw_examples"),
        precision=STUDY.precision,
        code=code("prune.py"),
    message:
        "Pruning {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/prune.py"
