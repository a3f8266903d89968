# Prediction files for a test server: `snakemake submission`.

SUBMISSION = "submission/{model}/{mixture}/{method}/seed{seed}"


rule predict:
    input:
        model=result(RUN, "model/model.safetensors"),
        heads=result(RUN, "model/heads.json"),
        encoded=more_splits("test", "encoded/{model}"),
        data=more_splits("test", "data"),
    output:
        result(RUN, "submission.parquet"),
    log:
        log(RUN, "predict"),
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
        files=lambda wildcards: more_names("test", wildcards.mixture),
        precision=STUDY.precision,
        code=code("predict.py"),
    message:
        "Predicting test sets: {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/predict.py"


rule prediction_files:
    input:
        predicted,
    output:
        files=[result(SUBMISSION, f"{name}.tsv") for name in TEST_FILES],
        archive=result(SUBMISSION, submission.ARCHIVE),
    log:
        log(SUBMISSION),
    wildcard_constraints:
        model=any_of(STUDY.models),
        mixture=any_of(MIXTURES),
        method=any_of(METHODS),
        seed=r"\d+",
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        code=code("submission.py"),
    message:
        "Prediction files of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/submission.py"
