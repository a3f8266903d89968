# Prediction files for a test server: `snakemake submission`.

from headspec.data.submission import ARCHIVE


rule predict:
    input:
        model=result(RUN, "model/classifiers.json"),
        tokens=job(files.more_splits, "test", "tokens/{model}"),
        data=job(files.more_splits, "test", "data"),
    output:
        result(RUN, "submission.parquet"),
    log:
        log(RUN, "predict"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("predict"),
    params:
        study=STUDY.study,
        files=job(Job.names, "test"),
        precision=STUDY.precision,
        code=code("training/predict.py"),
    message:
        "Predicting test sets: {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/training/predict.py"


rule prediction_files:
    input:
        job(files.predictions),
    output:
        files=[result(SUBMISSION, f"{name}.tsv") for name in LAYOUT.test_files],
        archive=result(SUBMISSION, ARCHIVE),
    log:
        log(SUBMISSION),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        code=code("data/submission.py"),
    message:
        "Prediction files of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/data/submission.py"
