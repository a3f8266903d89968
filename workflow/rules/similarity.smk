# How alike the tasks of `mixtures.pairs` are, by every measure of the config.

#: texts without labels that models represent
TEXTS = {
    "probe": result("similarity/probe.parquet"),
    "stimuli": result("brain/stimuli.parquet"),
}


localrules:
    encode_texts,


rule probe:
    input:
        probe_sources,
    output:
        TEXTS["probe"],
    log:
        log("probe"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        study=STUDY.study,
        source=STUDY.similarity.probe,
        sentences=STUDY.similarity.probe_sentences,
        seed=STUDY.data_seed,
        code=code("probe.py"),
    message:
        "Sentences of the probe"
    script:
        "../scripts/probe.py"


rule encode_texts:
    input:
        lambda wildcards: TEXTS[wildcards.texts],
    output:
        result("encoded/{model}/{texts}.parquet"),
    log:
        log("encode/{model}.{texts}"),
    wildcard_constraints:
        model=any_of(STUDY.models),
        texts=any_of(TEXTS),
    priority: 10
    conda:
        "../../envs/train.yaml"
    threads: 1
    resources:
        mem_mb=4000,
        runtime=60,
    params:
        study=STUDY.study,
        model=model_settings("source", "max_length"),
        version=tokenizer_version,
        code=code("encode_texts.py"),
    message:
        "Tokens of the {wildcards.texts} for {wildcards.model}"
    script:
        "../scripts/encode_texts.py"


rule text_embedding:
    input:
        of_compared,
    output:
        result("similarity/{model}/text.parquet"),
    log:
        log("similarity/{model}/text"),
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
        tasks=COMPARED,
        model=model_settings("source", "sha256"),
        version=weights_version,
        samples=STUDY.similarity.samples,
        seed=STUDY.data_seed,
        precision=STUDY.precision,
        code=code("text_embedding.py"),
    message:
        "Text embeddings of the tasks by {wildcards.model}"
    script:
        "../scripts/text_embedding.py"


rule representations:
    input:
        models=of_singles("model/model.safetensors"),
        heads=of_singles("model/heads.json"),
        encoded=rules.encode_texts.output,
    output:
        result("similarity/{model}/seed{seed}/{texts}.parquet"),
    log:
        log("similarity/{model}/seed{seed}/{texts}"),
    wildcard_constraints:
        texts=any_of(TEXTS),
        seed=r"\d+",
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
        tasks=COMPARED,
        precision=STUDY.precision,
        code=code("representations.py"),
    message:
        "Vectors of the {wildcards.texts} by {wildcards.model}, every task's own, seed {wildcards.seed}"
    script:
        "../scripts/representations.py"


rule sensitivity:
    input:
        models=of_singles("model/model.safetensors"),
        heads=of_singles("model/heads.json"),
        encoded=of_compared,
    output:
        result("similarity/{model}/seed{seed}/{measure}.parquet"),
    log:
        log("similarity/{model}/seed{seed}/{measure}"),
    benchmark:
        result("benchmarks/similarity/{model}/seed{seed}/{measure}.tsv")
    wildcard_constraints:
        measure=any_of(MEASURED_BY["sensitivity"]),
        seed=r"\d+",
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
        tasks=COMPARED,
        model=model_settings("source", "sha256"),
        version=weights_version,
        samples=STUDY.similarity.samples,
        precision=STUDY.precision,
        code=code("sensitivity.py"),
    message:
        "Similarity of tasks by {wildcards.measure}, {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/sensitivity.py"


rule similarity:
    input:
        text=[
            result("similarity", model, "text.parquet")
            for model in STUDY.models
            if STUDY.similarity.asked("text_embedding")
        ],
        vectors=of_models_and_seeds("representations", "probe.parquet"),
        parameters=[
            path
            for measure in STUDY.similarity.asked("sensitivity")
            for path in of_models_and_seeds("sensitivity", f"{measure}.parquet")
        ],
        importance=[
            result("runs", model, task, "single", f"seed{seed}", "importance.parquet")
            for model in STUDY.models
            for seed in STUDY.seeds
            for task in COMPARED
            if STUDY.similarity.asked("importance")
        ],
        encoding=of_models_and_seeds("encoding", "encoding.parquet"),
    output:
        result("tables/similarity.parquet"),
    log:
        log("similarity"),
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        models=list(STUDY.models),
        seeds=list(STUDY.seeds),
        paradigms=PARADIGMS,
        measures=[
            m
            for m in STUDY.similarity.measures
            if m not in STUDY.similarity.asked("sensitivity") + STUDY.similarity.asked("encoding")
        ],
        fraction=STUDY.pruning.fraction,
        confidence=STUDY.dissociation.confidence,
        code=code("similarity.py"),
    message:
        "Similarity of tasks in {params.study}"
    script:
        "../scripts/similarity.py"
