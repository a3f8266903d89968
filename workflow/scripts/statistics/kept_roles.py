"""Roles of kept heads: gates and roles of all runs -> tables kept_roles, role_counts."""

from snakemake.iocontainers import Snakemake

from headspec import tables
from headspec.config.runs import PrunedRun
from headspec.progress import stage
from headspec.statistics.atlas.roles import POSITIONAL, RARE, SYNTACTIC, one_role
from headspec.statistics.kept_roles import KEPT_ROLES, ROLE_COUNTS, kept_roles, role_counts

snakemake: Snakemake
params, files = snakemake.params, snakemake.input
with stage(snakemake, "kept_roles"):
    pruned_runs = [PrunedRun(**pruned) for pruned in params.pruned_runs]
    gates = {pruned: tables.read(path) for pruned, path in zip(pruned_runs, files.gates, strict=True)}
    runs = dict.fromkeys(pruned.run for pruned in pruned_runs)
    before = {run: tables.read(path) for run, path in zip(runs, files.before, strict=True)}
    saved = [
        (pruned, kept_for)
        for pruned in pruned_runs
        if pruned.pruning_method in params.keep_models
        for kept_for in pruned.kept_for
    ]
    after = {each: one_role(tables.read(path)) for each, path in zip(saved, files.after, strict=True)}
    frame = kept_roles(gates, {run: one_role(table) for run, table in before.items()}, after)
    found = {role for table in before.values() for role in table["role"].unique()}  # or not claimed
    roles = [role for role in (POSITIONAL, SYNTACTIC, RARE) if role in found]
    counts = role_counts(frame, roles, params.seed)
    footer = tables.provenance(snakemake)
    tables.write(snakemake.output.heads, KEPT_ROLES, frame, footer)
    tables.write(snakemake.output.counts, ROLE_COUNTS, counts, footer)
