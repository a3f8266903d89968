# Similarity of the tasks of `mixtures.pairs`, by every measure in the config.

#: training tokens and single-task models of the compared tasks
COMPARED_TOKENS = expand(rules.tokenize.output.train, task=LAYOUT.compared, allow_missing=True)
COMPARED_MODELS = expand(
    rules.train.output.classifiers, mixture=LAYOUT.compared, method="single", allow_missing=True
)
#: unlabelled texts for which models compute vectors
TEXTS = {
    "sentences": result("similarity/sentences.parquet"),
    "stimuli": result("brain/stimuli.parquet"),
}


localrules:
    tokenize_texts,


rule sentences:
    input:
        job(files.sentences),
    output:
        TEXTS["sentences"],
    log:
        log("sentences"),
    priority: 10
    conda:
        "../../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=2000,
        runtime=15,
    params:
        study=STUDY.study,
        source=job(Job.user_file, "similarity", "sentences"),
        version=job(versions.user_file, "similarity", "sentences"),
        sentences=STUDY.similarity.max_sentences,
        seed=STUDY.data_seed,
        code=code("data/sentences.py"),
    message:
        "Sentences on which models are compared"
    script:
        "../scripts/data/sentences.py"


rule tokenize_texts:
    input:
        lambda wildcards: TEXTS[wildcards.texts],
    output:
        result("tokens/{model}/{texts}.parquet"),
    log:
        log("tokenize/{model}.{texts}"),
    wildcard_constraints:
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
        model=job(Job.tokenizer),
        version=job(versions.tokenizer),
        code=code("data/tokenize_texts.py"),
    message:
        "Tokens of the {wildcards.texts} for {wildcards.model}"
    script:
        "../scripts/data/tokenize_texts.py"


rule text_embedding:
    input:
        COMPARED_TOKENS,
    output:
        result("similarity/{model}/text.parquet"),
    log:
        log("similarity/{model}/text"),
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("text_embedding"),
    params:
        study=STUDY.study,
        tasks=LAYOUT.compared,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        samples=STUDY.similarity.samples,
        seed=STUDY.data_seed,
        precision=STUDY.precision,
        code=code("similarity/text_embedding.py"),
    message:
        "Text embeddings of the tasks by {wildcards.model}"
    script:
        "../scripts/similarity/text_embedding.py"


rule representations:
    input:
        models=COMPARED_MODELS,
        tokens=rules.tokenize_texts.output[0],
    output:
        result("similarity/{model}/seed{seed}/{texts}.parquet"),
    log:
        log("similarity/{model}/seed{seed}/{texts}"),
    wildcard_constraints:
        texts=any_of(TEXTS),
    priority: COMPARED
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("representations"),
    params:
        study=STUDY.study,
        tasks=LAYOUT.compared,
        precision=STUDY.precision,
        code=code("similarity/representations.py"),
    message:
        "Vectors of the {wildcards.texts} by the single-task models of {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/similarity/representations.py"


rule sensitivity:
    input:
        models=COMPARED_MODELS,
        tokens=COMPARED_TOKENS,
    output:
        result("similarity/{model}/seed{seed}/{measure}.parquet"),
    log:
        log("similarity/{model}/seed{seed}/{measure}"),
    wildcard_constraints:
        measure=any_of(similarity_measures.of_weights(similarity_measures.MEASURES)),
    priority: COMPARED
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("sensitivity"),
    params:
        study=STUDY.study,
        tasks=LAYOUT.compared,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        samples=STUDY.similarity.samples,
        precision=STUDY.precision,
        function=lambda wildcards: similarity_measures.MEASURES[wildcards.measure].function,
        directed=lambda wildcards: similarity_measures.MEASURES[wildcards.measure].directed,
        code=code(
            "similarity/sensitivity.py",
            lambda each: plugins.roots(
                [similarity_measures.MEASURES[each.wildcards.measure].function]
            ),
        ),
    message:
        "Similarity of tasks by {wildcards.measure}, {wildcards.model}, seed {wildcards.seed}"
    script:
        "../scripts/similarity/sensitivity.py"


MEASURES = STUDY.similarity.measures
DIRECTED = [name for name in MEASURES if similarity_measures.MEASURES[name].directed]


rule similarity:
    input:
        job(files.compared_tables),
    output:
        **({"affinity": result("tables/affinity.parquet")} if DIRECTED else {}),
        similarity=result("tables/similarity.parquet"),
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
        paradigms=LAYOUT.paradigms,
        measures=similarity_measures.entries(MEASURES, methods.alone(STUDY.methods)),
        fraction=STUDY.pruning.fraction,
        confidence=STUDY.dissociation.confidence,
        code=code(
            "similarity/similarity.py",
            lambda each: plugins.roots(similarity_measures.functions(MEASURES)),
        ),
    message:
        "Similarity of tasks in {params.study}"
    script:
        "../scripts/similarity/similarity.py"
