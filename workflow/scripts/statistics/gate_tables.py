"""Comparison of pruning methods: gates, predictions of pruned runs -> gates, budgets, overlap, kept heads."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import PrunedRun
from headspec.config.values import WHOLE
from headspec.progress import log, stage
from headspec.statistics.budgets import BUDGETS, budgets, counts
from headspec.statistics.chance import warnings
from headspec.statistics.kept_heads import (
    GATES,
    KEPT_KINDS,
    KEPT_LAYERS,
    OVERLAP,
    gates_table,
    kept_kinds,
    kept_layers,
    overlap,
)

snakemake: Snakemake
params = snakemake.params
with stage(snakemake, "gate tables"):
    pruned_runs = [PrunedRun(**pruned) for pruned in params.pruned_runs]
    gates = {
        pruned: tables.read(path) for pruned, path in zip(pruned_runs, snakemake.input.gates, strict=True)
    }
    paths = dict(zip(pruned_runs, snakemake.input.evaluations, strict=True))
    main = {task: names[0] for task, names in params.metrics.items()}
    for pruned, path in paths.items():
        run = pruned.run
        for warning in warnings(tables.read(path), main) if pruned.pruning_method == WHOLE else ():
            log.warning("%s, %s, seed %s, all heads: %s", run.model, run.mixture, run.seed, warning)
    heads = {
        pruned: counts(frame, pruned.pruning_method in params.open_ended) for pruned, frame in gates.items()
    }
    footer = tables.provenance(snakemake)
    whole = gates_table(gates)
    tables.write(snakemake.output.gates, GATES, whole, footer)
    tables.write(snakemake.output.layers, KEPT_LAYERS, kept_layers(whole), footer)
    kinds = kept_kinds(whole, footer.get("attention", {}), params.attention, params.resampling["confidence"])
    tables.write(snakemake.output.kinds, KEPT_KINDS, kinds, footer)
    frame = budgets(
        pruned_runs,
        lambda pruned: tables.read(paths[pruned]),
        heads,
        params.metrics,
        **params.resampling,
        seed=params.seed,
    )
    tables.write(snakemake.output.budgets, BUDGETS, frame, footer)
    closing = {pruned: frame for pruned, frame in gates.items() if pruned.pruning_method != WHOLE}
    frame = overlap(closing, params.resampling["resamples"], params.seed)
    tables.write(snakemake.output.overlap, OVERLAP, frame, footer)
