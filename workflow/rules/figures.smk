# A rule for each figure of the list; figures need only tables. On a cluster, a job draws several, as many as the
# profile puts into a group.
for each in FIGURES:

    rule:
        name:
            each.rule
        input:
            **of_jobs(each.inputs(LAYOUT)),
        output:
            report(
                figure(each.path),
                caption=f"../report/{each.name}.rst",
                category=each.category,
                labels={"figure": each.title} | {name: f"{{{name}}}" for name in each.wildcards},
            ),
        log:
            log(f"figures/{each.path}"),
        group:
            "figures"
        conda:
            "../../envs/figures.yaml"
        resources:
            mem_mb=4000,
            runtime=5,
        params:
            **drawing(each),
        message:
            each.message
        script:
            "../scripts/plots/figure.py"


rule figure_preview:
    input:
        combined=rules.preview_dissociation.output.combined,
        dissociation=rules.preview_dissociation.output.dissociation,
    output:
        [result("preview/figures", Path(path).name) for path in figure("dissociation")],
    log:
        log("preview/figures/dissociation"),
    group:
        "figures"
    conda:
        "../../envs/figures.yaml"
    resources:
        mem_mb=4000,
        runtime=5,
    params:
        **next(drawing(each) for each in FIGURES if each.name == "dissociation"),
    message:
        "Figure dissociation of the first mixture"
    script:
        "../scripts/plots/figure.py"
