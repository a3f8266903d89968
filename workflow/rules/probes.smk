# Parameter-free probes of what single heads know of the labels of words, before and after training.


rule probe:
    input:
        model=rules.train.output.classifiers,
        tokens=rules.tokenize.output,
        texts=[rules.data.output.train, rules.validation.output[0]],
    output:
        result(RUN, "probes/{task}.parquet"),
    log:
        log(RUN, "probes/{task}"),
    wildcard_constraints:
        task=any_of(LAYOUT.probed_tasks),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("probe"),
    params:
        study=STUDY.study,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        sentences=STUDY.probes.sentences,
        precision="fp32",  # bfloat16 would change where heads attend most
        code=code("probes/probe.py"),
    message:
        "Probes of {wildcards.task} in {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/probes/probe.py"


use rule probe as probe_pretrained with:
    input:
        tokens=rules.tokenize.output,
        texts=[rules.data.output.train, rules.validation.output[0]],
    output:
        result("probes/{model}/{task}.parquet"),
    log:
        log("probes/{model}/{task}"),
    priority: 10
    message:
        "Probes of {wildcards.task} in {wildcards.model} before training"


use rule probe_pretrained as probe_random with:
    output:
        result("probes/{model}/seed{seed}/{task}.parquet"),
    log:
        log("probes/{model}/seed{seed}/{task}"),
    params:
        model=job(Job.random_model),
    message:
        "Probes of {wildcards.task} in {wildcards.model} with random weights, seed {wildcards.seed}"


rule probe_tables:
    input:
        lambda wildcards: probing.tables(LAYOUT),
    output:
        probes=result("tables/probes.parquet"),
        changes=result("tables/probe_changes.parquet"),
    log:
        log("probes"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        groups=lambda wildcards: probing.groups(LAYOUT),
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/probes.py"),
    message:
        "What single heads know of labels"
    script:
        "../scripts/statistics/probes.py"


rule sharing:
    input:
        evaluations=run_tables(STUDY.probed, "evaluation.parquet"),
    output:
        result("tables/sharing.parquet"),
    log:
        log("sharing"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        runs=run_settings(STUDY.probed),
        metrics=lambda wildcards: probing.metrics(LAYOUT),
        resampling=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/sharing.py"),
    message:
        "What probed tasks gain or lose by sharing an encoder"
    script:
        "../scripts/statistics/sharing.py"
