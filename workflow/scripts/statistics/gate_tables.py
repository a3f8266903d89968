"""Pruning methods compared: gates and predictions of all pruned runs -> gates, budgets and what is kept."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from snakemake.iocontainers import snakemake

from headspec import tables
from headspec.config.runs import PrunedRun
from headspec.progress import log, stage
from headspec.statistics.chance import warnings
from headspec.statistics.gates.budgets import BUDGETS, WHOLE, budgets
from headspec.statistics.gates.kinds import KEPT_KINDS, kept_kinds
from headspec.statistics.gates.layers import KEPT_LAYERS, kept_layers
from headspec.statistics.gates.overlap import GATES, OVERLAP, gates_table, overlap
from headspec.statistics.gates.targets import counts

params = snakemake.params
with stage(snakemake, "budgets"):
    cells = [PrunedRun(**cell) for cell in params.cells]
    gates = {cell: tables.read(path) for cell, path in zip(cells, snakemake.input.gates, strict=True)}
    paths = dict(zip(cells, snakemake.input.evaluations, strict=True))
    for cell, path in paths.items():
        run = cell.run
        for warning in warnings(tables.read(path), params.metrics) if cell.pruning_method == WHOLE else ():
            log.warning("%s, %s, seed %s, all heads: %s", run.model, run.mixture, run.seed, warning)
    heads = {cell: counts(frame, cell.pruning_method in params.open_ended) for cell, frame in gates.items()}
    footer = tables.provenance(snakemake)
    whole = gates_table(gates)
    tables.write(snakemake.output.gates, GATES, whole, footer)
    tables.write(snakemake.output.layers, KEPT_LAYERS, kept_layers(whole), footer)
    kinds = kept_kinds(whole, footer.get("attention", {}), params.attention, params.resampling["confidence"])
    tables.write(snakemake.output.kinds, KEPT_KINDS, kinds, footer)
    frame = budgets(
        cells,
        lambda cell: tables.read(paths[cell]),
        heads,
        params.metrics,
        **params.resampling,
        seed=params.seed,
    )
    tables.write(snakemake.output.budgets, BUDGETS, frame, footer)
    pruned = {cell: frame for cell, frame in gates.items() if cell.pruning_method != WHOLE}
    frame = overlap(pruned, params.resampling["resamples"], params.seed)
    tables.write(snakemake.output.overlap, OVERLAP, frame, footer)
