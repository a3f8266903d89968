# A rule for each figure of the list; figures need only tables. On a cluster, a job draws several, as many as the
# profile puts into a group.
from headspec.pipeline.figures.registry import FIGURES, names


def figures_of(*categories: str):
    """Return an input: the figures that the study has in some categories of the report."""
    return lambda wildcards: LAYOUT.figures(names(LAYOUT, *categories))


def of_jobs(values: dict) -> dict:
    """Return inputs or parameters, with functions of a job as `job` returns them."""
    return {name: job(value) if callable(value) else value for name, value in values.items()}


def drawing(each) -> dict:
    """Return the parameters of a figure."""
    path = each.drawn_by.partition(":")[0]
    return of_jobs(each.arguments) | {
        "figure": each.name,
        "drawn_by": each.drawn_by,
        "dpi": STUDY.figures.dpi,
        "code": code("plots/figure.py", f"plots/{path}"),
    }


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
