# Probes without parameters: what single heads know of the labels of words, before and after training.


rule probe:
    input:
        model=rules.train.output.classifiers,
        tokens=INPUTS.of_task("tokens/{model}", "train", "validation"),
        texts=INPUTS.of_task("data", "train", "validation"),
    output:
        result(RUN, "probes/{task}.parquet"),
    log:
        log(RUN, "probes/{task}"),
    wildcard_constraints:
        task=any_of(LAYOUT.word_tasks),
    priority: by_tasks
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        gpu=GPU,
        mem_mb=memory("attended"),
        microbatches=microbatches,
        runtime=runtime("probe", 4 * 60),
    params:
        study=STUDY.study,
        model=INPUTS.model_settings("source", "sha256", "pooling", "weights"),
        version=weights_version,
        sentences=STUDY.probes.sentences,
        precision="fp32",  # bfloat16 would change where heads attend most
        code=code("probes/probe.py"),
    message:
        "Probes of {wildcards.task} in {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/probes/probe.py"


use rule probe as probe_pretrained with:
    input:
        tokens=INPUTS.of_task("tokens/{model}", "train", "validation"),
        texts=INPUTS.of_task("data", "train", "validation"),
    output:
        result("probes/{model}/{task}.parquet"),
    log:
        log("probes/{model}/{task}"),
    priority: 10
    message:
        "Probes of {wildcards.task} in {wildcards.model} before training"


rule probe_tables:
    input:
        lambda wildcards: LAYOUT.probed_tables,
    output:
        probes=result("tables/probes.parquet"),
        changes=result("tables/probe_changes.parquet"),
    log:
        log("probes"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        groups=lambda wildcards: LAYOUT.probed_groups,
        resampling=INPUTS.settings("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("statistics/probes.py"),
    message:
        "What single heads know of labels"
    script:
        "../scripts/statistics/probes.py"


use rule figure_reliability as figure_probes with:
    input:
        probes=rules.probe_tables.output.probes,
    output:
        report(
            figure("probes/{model}.{task}"),
            caption="../report/probes.rst",
            category="Probes",
            labels={"figure": "labels that heads know", "model": "{model}", "task": "{task}"},
        ),
    log:
        log("figures/probes/{model}.{task}"),
    params:
        figure="probes",
        code=code("plots/figure.py", "plots/probes.py"),
    message:
        "Figure probes/{wildcards.model}.{wildcards.task}"
