# Brain responses: how well vectors of the stimuli predict them, voxel by voxel.


rule stimuli:
    input:
        stimuli=os.path.relpath(experiment.stimuli_file(STUDY.brain)),
        texts=[
            result("data", task, "train.parquet")
            for task in COMPARED
            if "frequency" in STUDY.brain.nuisance
        ],
    output:
        result("brain/stimuli.parquet"),
    log:
        log("brain/stimuli"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        brain=settings("brain", "stimuli", "responses", "nuisance"),
        code=code("stimuli.py"),
    message:
        "Stimuli of the brain responses"
    script:
        "../scripts/stimuli.py"


rule voxels:
    input:
        stimuli=rules.stimuli.output,
        responses=os.path.relpath(experiment.responses_file(STUDY.brain)),
    output:
        result("brain/voxels.parquet"),
    log:
        log("brain/voxels"),
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
        responses=rules.voxels.input.responses,
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
        [result(f"similarity/{{model}}/seed{seed}/encoding.parquet") for seed in STUDY.seeds],
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
