# The head atlas: what each head attends to, how the metric changes without it, and which measure to trust.


rule treebank:
    input:
        job(starts.treebank_texts),
    output:
        result("atlas/treebank.parquet"),
    log:
        log("atlas/treebank"),
    priority: 10  # so that a bad treebank from the hub fails early
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        treebank=job(Job.treebank),
        version=job(versions.treebank),
        tasks=[] if STUDY.atlas.treebank else LAYOUT.atlas_tasks,
        code=code("data/treebank.py"),
    message:
        "Sentences for the roles of heads"
    script:
        "../scripts/data/treebank.py"


rule attention:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        result(RUN, "atlas/attention.parquet"),
    log:
        log(RUN, "atlas/attention"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("attention"),
    params:
        study=STUDY.study,
        model=job(Job.loaded_model),
        version=job(versions.tokenizer),
        tasks=job(Job.task_names),
        examples=STUDY.atlas.examples,
        precision="fp32",  # bfloat16 would change where heads attend most
        code=code("atlas/attention.py"),
    message:
        "Attention of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/attention.py"


rule attended:
    input:
        model=rules.train.output.classifiers,
        treebank=rules.treebank.output[0],
        targets=job(files.targets, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        result(RUN, "atlas/attended.parquet"),
    log:
        log(RUN, "atlas/attended"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("attended"),
    params:
        study=STUDY.study,
        model=job(Job.loaded_model),
        version=job(versions.tokenizer),
        sentences=STUDY.atlas.sentences,
        translations=job(Job.translations),
        precision="fp32",
        code=code("atlas/attended.py"),
    message:
        "Words that heads of {wildcards.model} attend to, {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/attended.py"


rule roles:
    input:
        attended=rules.attended.output[0],
        treebank=rules.treebank.output[0],
    output:
        result(RUN, "atlas/roles.parquet"),
    log:
        log(RUN, "atlas/roles"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        code=code("atlas/roles.py"),
    message:
        "Roles of heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/roles.py"


rule relevance:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        result(RUN, "atlas/relevance.parquet"),
    log:
        log(RUN, "atlas/relevance"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("relevance"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        examples=STUDY.atlas.examples,
        rules=STUDY.atlas.relevance,
        precision=STUDY.precision,
        code=code("atlas/relevance.py"),
    message:
        "Relevance of heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/relevance.py"


rule ablation:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        heads=result(RUN, "atlas/ablation.parquet"),
        predictions=result(RUN, "atlas/ablated.parquet"),
    log:
        log(RUN, "atlas/ablation"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("ablation"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        examples=STUDY.atlas.examples,
        measures=STUDY.atlas.ablations,
        beams=job(Job.beams),
        precision=STUDY.precision,
        code=code("atlas/ablation.py"),
    message:
        "Ablating each head of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/ablation.py"


# a ranking that a module or plugin measures in passes through the model
rule measured:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        vocabulary=job(files.vocabulary),
    output:
        result(RUN, "atlas/{measure}.parquet"),
    log:
        log(RUN, "atlas/{measure}"),
    wildcard_constraints:
        measure=any_of(LAYOUT.measured),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("measured") | {"runtime": 8 * 60},
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        examples=STUDY.atlas.examples,
        precision=STUDY.precision,
        function=lambda wildcards: head_measures.MEASURES[wildcards.measure].function,
        from_pretrained=lambda wildcards: head_measures.MEASURES[wildcards.measure].from_pretrained,
        model=job(Job.loaded_model),
        version=job(versions.weights),
        code=code(
            "atlas/measured.py",
            lambda each: plugins.roots([head_measures.MEASURES[each.wildcards.measure].function]),
        ),
    message:
        "{wildcards.measure} of heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/measured.py"


# a ranking by what heads of a decoder do
rule behaviour:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        texts=job(files.behaviour_texts),
        vocabulary=job(files.vocabulary),
    output:
        result(RUN, "atlas/{measure}.parquet"),
    log:
        log(RUN, "atlas/{measure}"),
    wildcard_constraints:
        measure=any_of(STUDY.atlas.behaviours),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("behaviour") | {"runtime": 8 * 60},
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        model=job(Job.loaded_model),
        version=job(versions.tokenizer),
        prompts=job(Job.behaviour_prompts),
        sequences=head_measures.SEQUENCES,
        examples=STUDY.atlas.examples,
        precision=STUDY.precision,
        code=code("atlas/behaviour.py"),
    message:
        "{wildcards.measure} of heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/behaviour.py"


# a ranking that is computed from another table of measures
rule derived:
    input:
        job(files.ranked_table),
    output:
        result(RUN, "atlas/{measure}.parquet"),
    log:
        log(RUN, "atlas/{measure}"),
    wildcard_constraints:
        measure=any_of(STUDY.atlas.derived),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=4000,
        runtime=30,
    params:
        study=STUDY.study,
        function=lambda wildcards: head_measures.MEASURES[wildcards.measure].function,
        code=code(
            "atlas/derived.py",
            lambda each: plugins.roots([head_measures.MEASURES[each.wildcards.measure].function]),
        ),
    message:
        "{wildcards.measure} of heads of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/derived.py"


rule cumulative:
    input:
        model=rules.train.output.classifiers,
        tokens=job(files.tokens, "validation"),
        heads=job(files.ranking_tables),
        gates=job(pruned.rankings),
    output:
        result(RUN, "atlas/cumulative.parquet"),
    log:
        log(RUN, "atlas/cumulative"),
    priority: larger_mixtures_first
    conda:
        "../../envs/train.yaml"
    threads: THREADS
    resources:
        **requests("cumulative"),
    params:
        study=STUDY.study,
        tasks=job(Job.task_names),
        examples=STUDY.atlas.examples,
        fraction=STUDY.pruning.fraction,
        rankings=STUDY.atlas.rankings,
        learnt=head_measures.learnt(STUDY.atlas.rankings),
        bottom=STUDY.atlas.bottom,
        fractions=STUDY.atlas.fractions,
        draws=STUDY.atlas.draws,
        same_layers=STUDY.atlas.same_layers,
        beams=job(Job.beams),
        precision=STUDY.precision,
        code=code("atlas/cumulative.py"),
    message:
        "Cumulative pruning of {wildcards.model} on {wildcards.mixture}, {wildcards.method}, seed {wildcards.seed}"
    script:
        "../scripts/atlas/cumulative.py"


rule heads:
    input:
        measures=lambda wildcards: LAYOUT.head_measures,
        roles=run_tables(LAYOUT.atlas_runs, "atlas/roles.parquet"),
    output:
        heads=result("tables/heads.parquet"),
        agreement=result("tables/agreement.parquet"),
        roles=result("tables/head_roles.parquet"),
        differences=result("tables/task_differences.parquet"),
    log:
        log("atlas/heads"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.atlas_runs),
        compared=head_measures.compared(STUDY.atlas.rankings),
        fraction=STUDY.pruning.fraction,
        dissociation=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("atlas/heads.py"),
    message:
        "Measures of heads, and their agreement"
    script:
        "../scripts/atlas/heads.py"


rule single_heads:
    input:
        run_tables(LAYOUT.atlas_runs, "atlas/ablated.parquet"),
    output:
        result("tables/single_heads.parquet"),
    log:
        log("atlas/single_heads"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.atlas_runs),
        metrics=STUDY.main_metrics,
        dissociation=section("dissociation", "resamples", "confidence"),
        seed=STUDY.data_seed,
        code=code("atlas/single_heads.py"),
    message:
        "Metric of every task with each head ablated"
    script:
        "../scripts/atlas/single_heads.py"


rule rankings:
    input:
        predictions=run_tables(LAYOUT.atlas_runs, "atlas/cumulative.parquet"),
        texts=job(files.validation_tables, LAYOUT.atlas_runs),
    output:
        pruning_curves=result("tables/pruning_curves.parquet"),
        pruning_areas=result("tables/pruning_areas.parquet"),
        ranking_dissociation=result("tables/ranking_dissociation.parquet"),
    log:
        log("atlas/rankings"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        runs=run_settings(LAYOUT.atlas_runs),
        sources=job(shared_texts.text_sources, LAYOUT.atlas_runs),
        metrics=STUDY.main_metrics,
        fraction=STUDY.pruning.fraction,
        dissociation=section("dissociation", "resamples", "confidence", "distinct"),
        seed=STUDY.data_seed,
        code=code("atlas/rankings.py"),
    message:
        "Rankings of heads by how much pruning them hurts"
    script:
        "../scripts/atlas/rankings.py"


rule belief:
    input:
        agreement=rules.heads.output.agreement,
        areas=rules.rankings.output.pruning_areas,
        dissociation=rules.rankings.output.ranking_dissociation,
    output:
        result("tables/belief.parquet"),
    log:
        log("atlas/belief"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=60,
    params:
        study=STUDY.study,
        code=code("atlas/belief.py"),
    message:
        "Which ranking of heads to believe"
    script:
        "../scripts/atlas/belief.py"
