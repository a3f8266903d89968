# Brain responses, and how well vectors of the stimuli predict them in each voxel.


rule stimuli:
    output:
        TEXTS["stimuli"],
    log:
        log("brain/stimuli"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=2000,
        runtime=30,
    params:
        study=STUDY.study,
        source=job(Job.user_file, "brain", "stimuli"),
        version=job(versions.user_file, "brain", "stimuli"),
        code=code("similarity/stimuli.py"),
    message:
        "Stimuli of the brain responses"
    script:
        "../scripts/similarity/stimuli.py"


rule voxels:
    input:
        texts=[
            LAYOUT.data(task, "train")
            for task in dict.fromkeys(LAYOUT.parents.get(task, task) for task in LAYOUT.compared)
            if "frequency" in STUDY.brain.nuisance
        ],
    output:
        nuisance=result("brain/nuisance.parquet"),
        voxels=result("brain/voxels.parquet"),
    log:
        log("brain/voxels"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        source=job(Job.user_file, "brain", "stimuli"),
        version=job(versions.user_file, "brain", "stimuli"),
        responses=job(Job.user_file, "brain", "responses"),
        responses_version=job(versions.user_file, "brain", "responses"),
        regressors=STUDY.brain.nuisance,
        folds=STUDY.brain.folds,
        voxels=STUDY.brain.voxels,
        seed=STUDY.data_seed,
        code=code("similarity/voxels.py"),
    message:
        "Nuisance variables, and reliability and ceiling of voxels"
    script:
        "../scripts/similarity/voxels.py"


rule brain_encoding:
    input:
        stimuli=rules.stimuli.output[0],
        nuisance=rules.voxels.output.nuisance,
        voxels=rules.voxels.output.voxels,
        vectors=result("similarity/{model}/seed{seed}/stimuli.parquet"),
    output:
        encoding=result("similarity/{model}/seed{seed}/brain_encoding.parquet"),
        summary=result("similarity/{model}/seed{seed}/brain_encoding_summary.parquet"),
    log:
        log("brain_encoding/{model}/seed{seed}"),
    priority: COMPARED
    conda:
        "../../envs/train.yaml"
    resources:
        mem_mb=8000,
        runtime=4 * 60,
    params:
        study=STUDY.study,
        responses=job(Job.user_file, "brain", "responses"),
        responses_version=job(versions.user_file, "brain", "responses"),
        folds=STUDY.brain.folds,
        regression=STUDY.brain.regression,
        code=code("similarity/brain_encoding.py"),
    message:
        "Predicting brain responses from vectors of {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/similarity/brain_encoding.py"
