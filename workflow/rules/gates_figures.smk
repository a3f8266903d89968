# Figures of ways to keep a number of heads.


use rule figure_alpha_delta as figure_gates_budgets with:
    input:
        budgets=rules.budgets.output.budgets,
    output:
        report(
            figure("gates/budgets.{model}.{mixture}.{method}"),
            caption="../report/gates_budgets.rst",
            category="Gates",
            labels={
                "figure": "metric by heads kept",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/gates/budgets.{model}.{mixture}.{method}"),
    params:
        figure="gates/budgets",
        metrics=INPUTS.main_metrics,
        labels=ways.labels(BUDGETS.names),
        places=ways.places(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/budgets.py"),
    message:
        "Figure gates/budgets.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_gates_kept with:
    input:
        gates=rules.budgets.output.gates,
    output:
        report(
            figure("gates/kept.{model}.{mixture}.{method}"),
            caption="../report/gates_kept.rst",
            category="Gates",
            labels={
                "figure": "heads kept",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/gates/kept.{model}.{mixture}.{method}"),
    params:
        figure="gates/kept",
        tasks=INPUTS.tasks,
        labels=ways.labels(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/kept.py"),
    message:
        "Figure gates/kept.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_gates_learning with:
    input:
        gates=rules.budgets.output.gates,
    output:
        report(
            figure("gates/learning.{model}.{mixture}.{method}"),
            caption="../report/gates_learning.rst",
            category="Gates",
            labels={
                "figure": "gates while they learn",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/gates/learning.{model}.{mixture}.{method}"),
    params:
        figure="gates/learning",
        labels=ways.labels(BUDGETS.names),
        places=ways.places(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/learning.py"),
    message:
        "Figure gates/learning.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_gates_overlap with:
    input:
        overlap=rules.budgets.output.overlap,
    output:
        report(
            figure("gates/overlap.{model}"),
            caption="../report/gates_overlap.rst",
            category="Gates",
            labels={"figure": "overlap of kept heads", "model": "{model}"},
        ),
    log:
        log("figures/gates/overlap.{model}"),
    params:
        figure="gates/overlap",
        labels=ways.labels(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/overlap.py"),
    message:
        "Figure gates/overlap.{wildcards.model}"


use rule figure_alpha_delta as figure_gates_kept_roles with:
    input:
        counts=rules.kept_roles.output.counts,
    output:
        report(
            figure("gates/kept_roles.{model}.{mixture}.{method}"),
            caption="../report/gates_kept_roles.rst",
            category="Gates",
            labels={
                "figure": "roles of kept heads",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/gates/kept_roles.{model}.{mixture}.{method}"),
    params:
        figure="gates/kept_roles",
        tasks=INPUTS.tasks,
        labels=ways.labels(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/kept_roles.py"),
    message:
        "Figure gates/kept_roles.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"


use rule figure_alpha_delta as figure_gates_kept_kinds with:
    input:
        kinds=rules.budgets.output.kinds,
    output:
        report(
            figure("gates/kept_kinds.{model}.{mixture}.{method}"),
            caption="../report/gates_kept_kinds.rst",
            category="Gates",
            labels={
                "figure": "kinds of attention kept",
                "model": "{model}",
                "mixture": "{mixture}",
                "method": "{method}",
            },
        ),
    log:
        log("figures/gates/kept_kinds.{model}.{mixture}.{method}"),
    params:
        figure="gates/kept_kinds",
        tasks=INPUTS.tasks,
        labels=ways.labels(BUDGETS.names),
        code=code("plots/figure.py", "plots/gates/kept_kinds.py"),
    message:
        "Figure gates/kept_kinds.{wildcards.model}.{wildcards.mixture}.{wildcards.method}"
