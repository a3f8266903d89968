# Brain responses, and how well vectors of the stimuli predict them, voxel by voxel.


rule stimuli:
    input:
        INPUTS.user_file("stimuli"),
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
        code=code("similarity/stimuli.py"),
    message:
        "Stimuli of the brain responses"
    script:
        "../scripts/similarity/stimuli.py"


rule nuisance:
    input:
        stimuli=INPUTS.user_file("stimuli"),
        texts=INPUTS.training_texts() if "frequency" in STUDY.brain.nuisance else [],
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
        code=code("similarity/nuisance.py"),
    message:
        "Nuisance variables of brain responses"
    script:
        "../scripts/similarity/nuisance.py"


rule voxels:
    input:
        stimuli=rules.stimuli.output[0],
        nuisance=rules.nuisance.output[0],
        responses=INPUTS.user_file("responses"),
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
        code=code("similarity/voxels.py"),
    message:
        "Reliability and ceiling of voxels"
    script:
        "../scripts/similarity/voxels.py"


rule brain_encoding:
    input:
        stimuli=rules.stimuli.output[0],
        nuisance=rules.nuisance.output[0],
        responses=INPUTS.user_file("responses"),
        voxels=rules.voxels.output[0],
        vectors=result("similarity/{model}/seed{seed}/stimuli.parquet"),
    output:
        encoding=result("similarity/{model}/seed{seed}/brain_encoding.parquet"),
        summary=result("similarity/{model}/seed{seed}/brain_encoding_summary.parquet"),
    log:
        log("brain_encoding/{model}/seed{seed}"),
    priority: COMPARED
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
        code=code("similarity/brain_encoding.py"),
    message:
        "Predicting brain responses from vectors of {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/similarity/brain_encoding.py"
