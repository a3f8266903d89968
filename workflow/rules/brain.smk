# Brain responses: how well vectors of the stimuli predict them, voxel by voxel.


rule stimuli:
    input:
        user_file("stimuli"),
    output:
        TEXTS["stimuli"],
    log:
        log("brain/stimuli"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=STUDY.study,
        source=STUDY.brain.stimuli,
        code=code("stimuli.py"),
    message:
        "Stimuli of the brain responses"
    script:
        "../scripts/stimuli.py"


rule nuisance:
    input:
        stimuli=user_file("stimuli"),
        texts=training_texts() if "frequency" in STUDY.brain.nuisance else [],
    output:
        result("brain/nuisance.parquet"),
    log:
        log("brain/nuisance"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        source=STUDY.brain.stimuli,
        names=STUDY.brain.nuisance,
        code=code("nuisance.py"),
    message:
        "What is regressed out of brain responses"
    script:
        "../scripts/nuisance.py"


rule voxels:
    input:
        stimuli=rules.stimuli.output,
        nuisance=rules.nuisance.output,
        responses=user_file("responses"),
    output:
        result("brain/voxels.parquet"),
    log:
        log("brain/voxels"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        folds=STUDY.brain.folds,
        voxels=STUDY.brain.voxels,
        seed=STUDY.data_seed,
        code=code("voxels.py"),
    message:
        "Reliability and ceiling of voxels"
    script:
        "../scripts/voxels.py"


rule encoding:
    input:
        stimuli=rules.stimuli.output,
        nuisance=rules.nuisance.output,
        responses=user_file("responses"),
        voxels=rules.voxels.output,
        vectors=result("similarity/{model}/seed{seed}/stimuli.parquet"),
    output:
        encoding=result("similarity/{model}/seed{seed}/encoding.parquet"),
        summary=result("similarity/{model}/seed{seed}/encoding_summary.parquet"),
    log:
        log("encoding/{model}/seed{seed}"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        seed=any_of(STUDY.seeds),
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        folds=STUDY.brain.folds,
        regression=STUDY.brain.regression,
        code=code("encoding.py"),
    message:
        "Brain responses from vectors of {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/encoding.py"


rule figure_encoding:
    input:
        encoding=[
            result(f"similarity/{{model}}/seed{seed}/encoding.parquet") for seed in STUDY.seeds
        ],
        summary=[
            result(f"similarity/{{model}}/seed{seed}/encoding_summary.parquet")
            for seed in STUDY.seeds
        ],
    output:
        report(
            figure("encoding.{model}"),
            caption="../report/encoding.rst",
            category="Similarity",
            labels={"figure": "brain encoding", "model": "{model}"},
        ),
    log:
        log("figures/encoding.{model}"),
    wildcard_constraints:
        model=any_of(STUDY.models),
    conda:
        "../../envs/figures.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=15,
    params:
        seeds=STUDY.seeds,
        tasks=COMPARED,
        dpi=STUDY.figures.dpi,
        style=sources.style(),
        code=code("figure_encoding.py"),
    message:
        "Figure encoding.{wildcards.model}"
    script:
        "../scripts/figure_encoding.py"
