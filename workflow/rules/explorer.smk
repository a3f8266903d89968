# A whole study on one page, made from tables only.

import yaml

from headspec.explorer import views


rule explorer:
    input:
        run_tables(LAYOUT.mixed, "importance.parquet"),
        run_tables(LAYOUT.mixed, "pruning.parquet"),
        [result(f"tables/{name}.parquet") for name in views.asked(STUDY)],
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
