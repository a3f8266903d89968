# A whole study on one page, from tables only.

import yaml


rule explorer:
    input:
        rules.dissociation.output,
        rules.contrasts.output,
        run_tables(LAYOUT.mixed, "importance.parquet"),
        run_tables(LAYOUT.mixed, "pruning.parquet"),
        rules.correlation.input.similarity if STUDY.similarity.measures else [],
        rules.correlation.output if STUDY.similarity.measures else [],
        [
            rules.improvement.output.improvement,
            rules.iat_dissociation.output,
            rules.specialization.output,
        ]
        if "iat" in STUDY.methods and STUDY.iat.mixtures
        else [],
        [
            rules.heads.output,
            rules.single_heads.output,
            rules.rankings.output.pruning_curves,
            rules.belief.output,
        ]
        if "atlas" in STUDY.methods
        else [],
        rules.gate_tables.output if "gates" in STUDY.methods else [],
        [result("tables/sharing.parquet"), rules.probe_tables.output]
        if "probes" in STUDY.methods
        else [],
        [result("tables/gains.parquet"), rules.gain_predictions.output]
        if "grouping" in STUDY.methods
        else [],
    output:
        result("explorer.html"),
    log:
        log("explorer"),
    conda:
        "../../envs/analysis.yaml"
    resources:
        mem_mb=8000,
        runtime=15,
    params:
        study=STUDY.study,
        config=lambda wildcards: yaml.safe_dump(config, sort_keys=False, allow_unicode=True),
        code=code("explorer/explorer.py"),
    message:
        "Explorer"
    script:
        "../scripts/explorer/explorer.py"
